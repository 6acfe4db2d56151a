"""Names for the references of file systems whose calls on names only count links and open descriptors."""


class Names:
    """Files by number.  A reference defines `File` (with `links` and `opens`), `reset`, `adopt` and `released`."""

    File: type

    def __init__(self, sizes, dirs):
        self.before = {i: (size, i in dirs) for i, size in enumerate(sizes)}  # file -> its size before the trace, or -1
        self.files = {}
        self.closes = False
        self.reset()

    def do(self, op, number, offset=0, length=0, file2=-1, flag=0):
        self.reset()
        if number not in self.files and not (op in ("create", "mkdir") and self.before[number][0] < 0):
            self.adopt(number)
        self.before[number] = (-1, self.before[number][1])
        getattr(self, f"do_{op}")(number, offset, length, file2)

    def do_create(self, number, *_):
        if number in self.files:
            self.files[number].opens += 1
        else:
            self.files[number] = self.File(links=1, opens=1)

    def do_open(self, number, *_):
        self.files[number].opens += 1

    def do_close(self, number, *_):
        self.closes = True
        self.files[number].opens = max(self.files[number].opens - 1, 0)
        self.leave(number)

    def do_link(self, number, *_):
        self.files[number].links += 1

    def do_unlink(self, number, *_):
        self.files[number].links -= 1
        self.leave(number)

    def do_rename(self, number, _offset, _length, replaced):
        if replaced in self.files and replaced != number:
            self.files[replaced].links -= 1
            self.leave(replaced)
        elif replaced >= 0 and replaced != number:
            self.before[replaced] = (-1, self.before[replaced][1])

    def leave(self, number):
        """Forget a file without names, at its last close if the trace has closes."""
        file = self.files[number]
        if file.links <= 0 and not (self.closes and file.opens > 0):
            del self.files[number]
            self.released(file)

    def do_fsync(self, *_):
        pass

    do_stat = do_fsync
