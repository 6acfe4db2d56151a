"""Files depend on each other in one direction: there is no circle, not even one that an import inside a function hides."""

import grimp
import pytest

KNOWN = {"scmsim.fs.linux"}  # circles that are still there: the kernels of rare calls


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """All imports, those inside functions too; what only a type checker sees is left out."""
    return grimp.build_graph("scmsim", exclude_type_checking_imports=True, cache_dir=None)


def test_no_two_files_need_each_other(graph: grimp.ImportGraph) -> None:
    circles = [
        (file, needed)
        for file in sorted(graph.modules)
        for needed in sorted(graph.find_modules_directly_imported_by(file))
        if graph.chain_exists(importer=needed, imported=file)
    ]
    assert [circle for circle in circles if circle[0].rpartition(".")[0] not in KNOWN] == []


def test_the_test_sees_imports_inside_functions(graph: grimp.ImportGraph) -> None:
    assert graph.direct_import_exists(importer="scmsim.result", imported="scmsim.result.table")
