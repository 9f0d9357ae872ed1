eager = True


def executing_eagerly():
    return eager
