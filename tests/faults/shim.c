/* Lets the N-th call of one kind on a file below one of some folders fail: preloaded into everything that a test starts.
 *
 * FAULTS_CALL    open write mkdir rename ftruncate fallocate mmap
 * FAULTS_ERRNO   what it fails with          FAULTS_AT   from which call on (1 is the first), counted in each process
 * FAULTS_ALWAYS  "1": all later ones as well FAULTS_IN   what the file's path holds: "gputune-r" for the run and the rings
 * FAULTS_HITS    a file that gets a byte for each call that failed
 * FAULTS_COUNT   a file that gets a line "process call path" for each call, of all kinds; nothing fails then
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int count;

static void told(void) {
    const char *file = getenv("FAULTS_HITS");
    if (!file) return;
    int fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    syscall(SYS_write, fd, "x", 1);
    syscall(SYS_close, fd);
}

static void counted(const char *file, const char *call, const char *path) {
    char line[4600];
    int length = snprintf(line, sizeof line, "%d %s %s\n", getpid(), call, path);
    int fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    syscall(SYS_write, fd, line, length);
    syscall(SYS_close, fd);
}

static int fails(const char *call, const char *path) {
    const char *count_to = getenv("FAULTS_COUNT"), *in = getenv("FAULTS_IN");
    if (count_to) {
        int kept = errno;
        if (in && path && strstr(path, in)) counted(count_to, call, path);
        errno = kept;
        return 0;
    }
    const char *which = getenv("FAULTS_CALL"), *part = getenv("FAULTS_IN");
    if (!which || !part || strcmp(which, call) || !path || !strstr(path, part)) return 0;
    int at = atoi(getenv("FAULTS_AT") ?: "1"), always = *(getenv("FAULTS_ALWAYS") ?: "") == '1';
    int n = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    if (always ? n < at : n != at) return 0;
    told();
    errno = atoi(getenv("FAULTS_ERRNO") ?: "28");
    return 1;
}

static const char *path_of(int fd, char *room, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = fd < 0 ? -1 : readlink(link, room, size - 1);
    if (length < 0) return NULL;
    room[length] = 0;
    return room;
}

static const char *path_at(int dir, const char *path, char *room, size_t size) {
    if (!path || *path == '/' || dir == AT_FDCWD) return path;
    if (!path_of(dir, room, size)) return path;
    size_t length = strlen(room);
    snprintf(room + length, size - length, "/%s", path);
    return room;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define BY_FD(call, fd, wrong) do { char room[4400]; int kept = errno; \
    if (fails(call, path_of(fd, room, sizeof room))) return wrong; errno = kept; } while (0)

#define OPEN(name) int name(const char *path, int flags, ...) { \
    REAL(name); va_list more; va_start(more, flags); mode_t mode = va_arg(more, int); va_end(more); \
    return fails("open", path) ? -1 : real(path, flags, mode); }
#define OPENAT(name) int name(int dir, const char *path, int flags, ...) { \
    REAL(name); char room[4400]; va_list more; va_start(more, flags); mode_t mode = va_arg(more, int); va_end(more); \
    return fails("open", path_at(dir, path, room, sizeof room)) ? -1 : real(dir, path, flags, mode); }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t size) { REAL(write); BY_FD("write", fd, -1); return real(fd, data, size); }
ssize_t pwrite(int fd, const void *d, size_t n, off_t at) { REAL(pwrite); BY_FD("write", fd, -1); return real(fd, d, n, at); }
ssize_t pwrite64(int fd, const void *d, size_t n, off64_t at) { REAL(pwrite64); BY_FD("write", fd, -1); return real(fd, d, n, at); }
ssize_t writev(int fd, const struct iovec *v, int n) { REAL(writev); BY_FD("write", fd, -1); return real(fd, v, n); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); return fails("mkdir", path) ? -1 : real(path, mode); }
int mkdirat(int dir, const char *path, mode_t mode) {
    REAL(mkdirat); char room[4400];
    return fails("mkdir", path_at(dir, path, room, sizeof room)) ? -1 : real(dir, path, mode);
}
int rename(const char *from, const char *to) { REAL(rename); return fails("rename", to) ? -1 : real(from, to); }
int renameat(int a, const char *from, int b, const char *to) {
    REAL(renameat); char room[4400];
    return fails("rename", path_at(b, to, room, sizeof room)) ? -1 : real(a, from, b, to);
}
int ftruncate(int fd, off_t size) { REAL(ftruncate); BY_FD("ftruncate", fd, -1); return real(fd, size); }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64); BY_FD("ftruncate", fd, -1); return real(fd, size); }
int posix_fallocate(int fd, off_t at, off_t size) {
    REAL(posix_fallocate); BY_FD("fallocate", fd, errno); return real(fd, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
    REAL(posix_fallocate64); BY_FD("fallocate", fd, errno); return real(fd, at, size);
}
int fallocate(int fd, int how, off_t at, off_t size) { REAL(fallocate); BY_FD("fallocate", fd, -1); return real(fd, how, at, size); }
int fallocate64(int fd, int how, off64_t at, off64_t size) {
    REAL(fallocate64); BY_FD("fallocate", fd, -1); return real(fd, how, at, size);
}
void *mmap(void *where, size_t size, int may, int how, int fd, off_t at) {
    REAL(mmap); BY_FD("mmap", fd, MAP_FAILED); return real(where, size, may, how, fd, at);
}
void *mmap64(void *where, size_t size, int may, int how, int fd, off64_t at) {
    REAL(mmap64); BY_FD("mmap", fd, MAP_FAILED); return real(where, size, may, how, fd, at);
}
