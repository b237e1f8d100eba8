"""Text on its way into LaTeX."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conjoin.report.as_latex import latex, tex
from conjoin.report.document import Document, Entry, ReportTable, Section, TableColumn


def test_the_paper_s_names() -> None:
    assert tex("5★ε_n") == r"5$^{\bigstar}$$\epsilon$$_{n}$"
    assert tex("5★ε∇ and 5★E_r") == r"5$^{\bigstar}$$\epsilon$$_{\nabla}$ and 5$^{\bigstar}$E$_{r}$"
    assert tex("5★ε◇") == r"5$^{\bigstar}$$\epsilon$$_{\diamondsuit}$"
    assert tex("Complεx, 0.366 ± 4e-4") == r"Compl$\epsilon$x, 0.366 $\pm$ 4e-4"


def test_special_characters() -> None:
    assert tex("a_b & 5 % of #1 {x} ~ \\ ^ $") == (
        r"a\_b \& 5 \% of \#1 \{x\} \textasciitilde{} \textbackslash{} \textasciicircum{} \$"
    )
    assert tex("Ködel, Ångström") == r"K\"{o}del, \r{A}ngstr\"{o}m"
    assert tex("日") == r"\texttt{U+65E5}"


@given(st.text())
def test_nothing_that_latex_might_not_know_is_left(text: str) -> None:
    assert tex(text).isascii()


def test_long_tables_may_break_and_short_ones_do_not() -> None:
    def table(rows: int) -> str:
        lines = tuple((Entry("a", bold=True), Entry("b", note="c")) for _ in range(rows))
        made = ReportTable(title="T", columns=(TableColumn("x, y", "left"), TableColumn("z")), rows=lines)
        return latex(Document(title="t", words=(), sections=(Section(title="s", tables=(made,)),)), figures="f")

    assert r"\begin{longtable}" not in table(3)
    assert r"\begin{longtable}" in table(30)
    assert r"\lines{l}{x,\\y} & z \\" in table(3)
    assert r"\textbf{\boldmath a} & \lines{r}{b\\{\scriptsize c}} \\" in table(3)
