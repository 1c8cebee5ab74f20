"""The examples of the documentation, run page by page."""

import pathlib
import re

import pytest

PAGES = sorted((pathlib.Path(__file__).resolve().parents[1] / "docs").glob("*.md"))
README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_examples(page):
    text = page.read_text(encoding="utf-8")
    if "openchatml.compat" in text and page.stem.startswith("from-"):
        pytest.importorskip("pydantic")
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), names)


def test_every_page_of_a_function_has_an_example():
    without = {page.stem for page in PAGES if "```python\n" not in page.read_text(encoding="utf-8")}
    # Lists of pages, of cases and of files.
    assert without <= {"README", "malformed", "adapters"}


def test_every_name_has_a_page():
    import openchatml
    from openchatml import data

    pages = {page.stem: page.read_text(encoding="utf-8") for page in PAGES}
    everything = "\n".join(pages.values())
    for name in openchatml.__all__:
        if name != "__version__":
            assert name in everything, name
    for name in data.__all__:
        assert name in pages["data"], name
    for page in PAGES:
        for target in re.findall(r"\]\(([\w-]+\.md)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), target
