#!/bin/sh
# Runs a command as on a machine on which nobody has worked yet: an empty home, the system's own python3 as $PYTHON, and
# pyenv's shims first on PATH, whose `python3.9` and the like are there and start nothing (status 127).
#
#   sh tests/new_machine.sh make test VENV=.venvs/new
#
# Where the system has no python3 of its own that can make an environment, the one that is on PATH does it, and that is said.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$place/home" "$place/shims"

own=
for python in /usr/bin/python3 "$(command -v python3)"; do
	if "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
		own=$python
		break
	fi
done
[ -n "$own" ] || { echo "new machine: no python3 from 3.10 upwards that can make an environment" >&2; exit 1; }
[ "$own" = /usr/bin/python3 ] || echo "new machine: the system's own python3 makes no environment: with $own" >&2
version=$("$own" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

for name in 2.7 3.8 3.9 3.10 3.11 3.12 3.13 3.14; do
	[ "$name" = "$version" ] && continue
	printf '#!/bin/sh\necho "pyenv: %s: command not found" >&2\nexit 127\n' "python$name" > "$place/shims/python$name"
	chmod 755 "$place/shims/python$name"
done

# Whoever works here has pyenv elsewhere on PATH, in PYENV_ROOT, and settings of pip's in the home: none of these is there.
PATH=$place/shims:$(printf '%s' "$PATH" | tr ':' '\n' | grep -v -E '/\.?pyenv/' | paste -s -d : -)
unset PYENV_ROOT PYENV_VERSION PYENV_DIR VIRTUAL_ENV PYTHONPATH PYTHONHOME
HOME=$place/home PYTHON=$own PATH=$PATH
export HOME PYTHON PATH
"$@"
