"""Machine files: every number has a source, and a malformed file names itself and its key."""

import tomllib

import pytest

from scmsim import mmu
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.mmu import presets

KINDS = ("vendor: ", "measured", "estimate: ", "as printed: ")
GOOD = registry.path("machine", "i7-8700k").read_text()


def test_the_machines_of_the_papers_are_there():
    assert {"i7-8700k", "i7-8700k-thesis", "core2-q8200", "e5-2640v4"} <= set(mmu.names())


@pytest.mark.parametrize("name", mmu.names())
def test_every_number_has_a_source_that_says_what_it_is(name):
    table = tomllib.loads(registry.path("machine", name).read_text())
    sources = [entry["source"] for kind in ("tlb", "walk_cache") for entry in table[kind]]
    for kind in ("walk", "time"):
        numbers = set(table[kind]) - {"source"}
        assert numbers == set(table[kind]["source"])
        sources += table[kind]["source"].values()
    assert [source for source in sources if not source.startswith(KINDS)] == []
    assert len(table["summary"]) <= 120


@pytest.mark.parametrize("name", mmu.names())
def test_every_machine_builds_and_has_times(name):
    state = mmu.machine(name)
    assert state["tlbs"][0] == len(presets.read(name)["tlb"])
    time = mmu.timing(name)
    assert set(time) - {"lines_in_flight", "load_gb_s"} == {
        "ghz",
        "cpi",
        "stlb_hit_cycles",
        "walk_hidden",
        "copy_gb_s",
        "syscall_ns",
    }
    assert all(isinstance(value, (int, float)) for value in time.values()) and 0 <= time["walk_hidden"] <= 1


def test_a_user_can_bring_a_machine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace("memory_cycles = 256", "memory_cycles = 5"))
    assert mmu.simulate([0], str(path))["dtlb_load_misses_walk_pending"] == 20
    assert mmu.timing(str(path))["ghz"] == 3.7


def test_a_bundled_machine_that_a_caller_changes_stays_unchanged():
    table, state = presets.read("i7-8700k"), presets.machine("i7-8700k")
    table["tlb"].clear()
    state["tlbs"] = 0
    assert presets.read("i7-8700k")["tlb"] and presets.machine("i7-8700k")["tlbs"][0]


def test_a_name_is_a_file_if_it_ends_so_or_has_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine.toml", "folder/mine"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(GOOD)
        assert presets.read(name) == presets.read("i7-8700k")
    with pytest.raises(UsageError, match="no machine named 'mine'"):
        presets.read("mine")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("entries = 64", "entrys = 64", r"tlb\.0\.entrys: no key named 'entrys'; did you mean 'entries'"),
        ("entries = 64", "", r"tlb\.0\.entries: is missing"),
        ("entries = 64", 'entries = "64"', r"tlb\.0\.entries: must be a whole number from 1 to 1048576, not '64'"),
        ("entries = 64", "entries = true", r"tlb\.0\.entries: must be a whole number from 1 to 1048576, not true"),
        ("entries = 64", "entries = 66", r"tlb\.0\.ways: 4 does not divide entries = 66"),
        ("entries = 64", "entries = 0", r"tlb\.0\.entries: must be a whole number from 1"),
        ("entries = 1536", "entries = 1524", r"tlb\.5\.index: an xor index needs a power of two, and .* = 127 sets"),
        (
            "ways = 12",
            'ways = 12\npolicy = "tree-plru"',
            r"tlb\.5\.policy: tree-plru needs a power of two, not ways = 12",
        ),
        ("ways = 12", 'ways = 12\npolicy = "mru"', r"tlb\.5\.policy: no policy named 'mru'; did you mean 'lru'"),
        ("ways = 12", "ways = 12\ncoalesce = 3", r"tlb\.5\.coalesce: 3 is not a power of two"),
        (
            "summary =",
            'fill = "inclusive"\nsummary =',
            r"fill: no rule of filling named 'inclusive'; .* mostly-inclusive",
        ),
        ('index = "xor"', 'index = "md5"', r"tlb\.5\.index: no index named 'md5'; choose from linear, xor"),
        ('pages = ["4KiB"]', 'pages = ["9KiB"]', r"tlb\.0\.pages\.0: '9KiB' is not the size of a page; use a power"),
        ('["load", "store"]', '["loads"]', r"tlb\.0\.first_level_for\.0: no side named 'loads'; did you mean 'load'"),
        ('first_level_for = ["fetch"]', "", r"no array has 4KiB pages and first_level_for = 'fetch'"),
        ('pages = ["2MiB"]', 'pages = ["4KiB"]', r"two arrays have the same page size and first_level_for = 'load'"),
        (
            'entry = "pdpte"',
            'entry = "pde"',
            r"walk_cache\.1\.entry: .*'pde' already; use pde, pdpte, pml4e, each once",
        ),
        ("levels = 4", "levels = 6", r"walk\.levels: must be a whole number from 1 to 5, not 6"),
        (
            'largest_page = "1GiB"',
            'largest_page = "16GiB"',
            r"walk\.largest_page: '16GiB' is not .*; use a power of two",
        ),
        ("memory_cycles = 256", "memory_cycles = -1", r"walk\.memory_cycles: must be a whole number from 0"),
        ("cpi = 1.0", "", r"time\.cpi: is missing"),
        ('size = "32KiB"', 'size = "1000"', r"cache\.0\.size: '1000' is not a multiple of 8 ways of 64 bytes"),
        ('size = "32KiB"', 'size = "4GiB"', r"cache\.0\.size: '4GiB' is not the size of a cache; use 64 bytes to 2GiB"),
        ('size = "32KiB"', 'size = "32KB"', r"cache\.0\.size: '32KB' could mean powers of two or of ten"),
        ('size = "32KiB"\n', "", r"cache\.0\.size: is missing"),
        (
            'fill = "inclusive"',
            'fill = "victim"',
            r"cache\.2\.fill: no rule of filling named 'victim'; choose from inclusive",
        ),
        (
            'fill = "non-inclusive"',
            'fill = "exclusive"',
            r"cache: level 2 cannot be 'exclusive'; only the third level can be",
        ),
        ("[[cache]]", "[[cache]]\n[[cache]]", r"cache\.0\.name: is missing"),
        (
            'flush = "clflushopt"',
            'flush = "clwbb"',
            r"flush: no write-back instruction named 'clwbb'; did you mean 'clwb'",
        ),
        ('ghz = "measured', 'gzh = "measured', r"time\.source\.ghz: is missing; say where ghz comes from"),
        ('summary = "', 'summary = "\n', "not TOML"),
        ("[[walk_cache]]", "[[walkcache]]", "walkcache: no key named 'walkcache'; did you mean 'walk_cache'"),
        ("[walk]", "[[walk]]", "walk: must be a table"),
    ],
)
def test_a_malformed_file_names_itself_the_line_and_the_key(tmp_path, old, new, message):
    assert old in GOOD
    path = tmp_path / "bad.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageError, match=rf"bad\.toml:[1-9]\d*: .*{message}"):
        mmu.machine(str(path))


def test_every_mistake_is_told_at_once_with_its_line(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(GOOD.replace("entries = 64", "entries = 0").replace("cpi = 1.0", 'cpi = "1"'))
    with pytest.raises(UsageError) as caught:
        mmu.machine(str(path))
    lines = path.read_text().splitlines()
    wrong = [i for i, line in enumerate(lines, 1) if line in ("entries = 0", 'cpi = "1"')]
    assert [int(said.split(":")[1]) for said in str(caught.value).splitlines()] == wrong and len(wrong) > 1


def test_a_missing_source_is_refused(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("\n".join(line for line in GOOD.splitlines() if not line.startswith("source = ")))
    with pytest.raises(UsageError, match=r"tlb\.0\.source: is missing"):
        mmu.machine(str(path))
    path.write_text("\n".join('source = " "' if line.startswith("source = ") else line for line in GOOD.splitlines()))
    with pytest.raises(UsageError, match=r"tlb\.0\.source: is empty"):
        mmu.machine(str(path))


def test_a_missing_file_and_a_machine_too_large(tmp_path):
    with pytest.raises(UsageError, match="cannot read '.*nowhere.toml': no such file"):
        mmu.machine(str(tmp_path / "nowhere.toml"))
    path = tmp_path / "huge.toml"
    path.write_text(GOOD.replace("entries = 1536\nways = 12", "entries = 65536\nways = 4"))
    with pytest.raises(UsageError, match="can have 32768 slots together, not"):
        mmu.machine(str(path))


@pytest.mark.parametrize(("text", "fits"), [("64x4", True), ("64x4".zfill(19), True), ("64x4".zfill(20), False)])
def test_a_shape_is_written_in_less_than_20_characters(text, fits):
    if fits:
        assert presets.plain(text) == presets.plain("64X4")
        return
    with pytest.raises(UsageError, match="is not a TLB; write entries x ways"):
        presets.plain(text)
