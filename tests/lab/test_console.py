"""Check the line that says why a guest failed, taken from its console."""

import pytest

from scmsim.lab import console


@pytest.mark.parametrize(
    ("text", "messages", "status", "said"),
    [
        ("[ 1.2] Kernel panic - not syncing: VFS\n", "", 0, "panicked: Kernel panic - not syncing: VFS"),
        ("a\nscmsim: failed: mount ext4: errno 22\n", "", 0, "failed at mount ext4 (invalid argument)"),
        (
            "\nscmsim: failed: find persistent memory: it has no block device (CONFIG_BLK_DEV_PMEM and CONFIG_BTT, modules nd_pmem "
            "and nd_btt): errno 19\n",
            "",
            0,
            "CONFIG_BTT, modules nd_pmem and nd_btt) (no such device); choose a kernel that has it, or give its modules",
        ),
        ("\nscmsim: failed: dax the file system was mounted, but without DAX: errno 95\n", "", 0, "CONFIG_FS_DAX"),
        ("", "qemu: Could not load plugin x.so: undefined symbol\n", 1, "plugin x.so"),
        ("one\ntwo\n", "", None, "exceeded its time limit"),
        ("", "", -9, "signal 9"),
        ("\x1b[2Jlast\x07 words\n", "", 1, "console ends: last"),
    ],
)
def test_diagnosis_is_one_line(text, messages, status, said):
    line = console.diagnose(text, messages, status)
    assert said in line and "\n" not in line and "\x1b" not in line and "\x07" not in line


def test_a_panic_shows_what_the_kernel_said_of_the_fault():
    console_text = """
[    2.1] BUG: kernel NULL pointer dereference, address: 0000000000000008
[    2.1] #PF: supervisor read access in kernel mode
[    2.1] Oops: 0000 [#1] SMP NOPTI
[    2.1] RIP: 0010:winefs_new_inode+0xb1/0x2a0 [winefs]
[    2.1] Call Trace:
[    2.2] RIP: 0033:0x401234
[    2.3] Kernel panic - not syncing: Fatal exception
"""
    line = console.diagnose(console_text, "", 0)
    assert "panicked: Kernel panic - not syncing: Fatal exception; BUG: kernel NULL pointer dereference" in line
    assert "; in winefs_new_inode (RIP: 0010:winefs_new_inode+0xb1/0x2a0 [winefs])" in line and "console" not in line
    place = "[ 1.0] kernel BUG at fs/pmfs/inode.c:12!\n[ 1.0] RIP: 0010:0x0\n[ 1.0] Kernel panic - not syncing: x\n"
    assert "kernel BUG at fs/pmfs/inode.c:12!; in unknown code (RIP: 0010:0x0)" in console.diagnose(place, "", 0)
    warned = "[ 0.9] WARNING: CPU: 0 PID: 1 at mm/vmalloc.c:2876\n[ 0.9] RIP: 0010:__vmalloc_node_range+0x24d/0x2d0\n"
    assert "; in unknown code" in console.diagnose(warned + place, "", 0)  # the place of the fault, not of the warning


def test_finished_is_the_guests_own_word():
    assert console.finished("boot\r\n\r\nscmsim: finished\r\n")
    assert not console.finished("scmsim: failed: x y: errno 1\n")
