"""Files depend on each other in one direction: there is no circle, not even one that an import inside a function or for a type
checker hides."""

import grimp
import pytest


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """All imports, those inside functions too."""
    return grimp.build_graph("scmsim", cache_dir=None)


def test_no_two_files_need_each_other(graph: grimp.ImportGraph) -> None:
    circles = [
        (file, needed)
        for file in sorted(graph.modules)
        for needed in sorted(graph.find_modules_directly_imported_by(file))
        if graph.chain_exists(importer=needed, imported=file)
    ]
    assert circles == []


def test_the_test_sees_imports_inside_functions(graph: grimp.ImportGraph) -> None:
    assert graph.direct_import_exists(importer="scmsim.result", imported="scmsim.result.table")
