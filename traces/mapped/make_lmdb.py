"""What lmdb-get.parquet records: random look-ups in an LMDB database, through Debian's liblmdb0 and no other package.

python3 make_lmdb.py load /var/tmp/lmdb        # 40,000 keys of 8 bytes with values of 400, in a drawn order
python3 make_lmdb.py get /var/tmp/lmdb 1000    # keys of a linear congruential generator
"""

import ctypes
import sys

ENTRIES, VALUE = 40_000, 400
MAP = 64 << 20
RDONLY, CREATE = 0x20000, 0


class Val(ctypes.Structure):
    """MDB_val of lmdb.h."""

    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_char_p)]


lib = ctypes.CDLL("liblmdb.so.0")
lib.mdb_env_set_mapsize.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def drawn():
    """Numbers of keys without end."""
    state = 1
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 33) % ENTRIES


def checked(status):
    """Raise an error unless LMDB has succeeded."""
    if status:
        raise SystemExit(f"LMDB says {status}")


def val(data):
    """Return a key or a value."""
    return Val(len(data), data)


def main(what, folder, gets=0):
    """Load or look up."""
    env, txn, dbi, flags = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint(), RDONLY if what == "get" else CREATE
    checked(lib.mdb_env_create(ctypes.byref(env)))
    checked(lib.mdb_env_set_mapsize(env, MAP))
    checked(lib.mdb_env_open(env, folder.encode(), flags, 0o644))
    checked(lib.mdb_txn_begin(env, None, flags, ctypes.byref(txn)))
    checked(lib.mdb_dbi_open(txn, None, 0, ctypes.byref(dbi)))
    keys = drawn()
    if what == "load":
        for number in range(ENTRIES):
            key = b"%08d" % (number * 7919 % ENTRIES)
            checked(lib.mdb_put(txn, dbi, ctypes.byref(val(key)), ctypes.byref(val(b"x" * VALUE)), 0))
        checked(lib.mdb_txn_commit(txn))
    else:
        found = Val()
        for _ in range(gets):
            checked(lib.mdb_get(txn, dbi, ctypes.byref(val(b"%08d" % next(keys))), ctypes.byref(found)))
    lib.mdb_env_close(env)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
