"""`chainrule doctor`: what is wrong with a run, and what to do about it."""

from typing import TYPE_CHECKING

from chainrule.cli import options

if TYPE_CHECKING:
    from chainrule.training.finding import Finding

COLOURS = {"problem": "red", "note": "yellow", "good": "green"}


def command(run: options.RunPath, as_json: options.Json = False) -> None:
    """Examine a run: overfitting, learning rate, dead units, gradients, data, and the loss beside that of baselines."""
    from chainrule.analysis.doctor.examine import examine
    from chainrule.cli.output import print_json

    findings = examine(run)
    if as_json:
        print_json({"run": run, "findings": [vars(finding) for finding in findings]})
    else:
        _report(findings)


def _report(findings: "list[Finding]") -> None:
    """Print each finding beside its severity: wrapped on a terminal, else on one line with the advice on the next."""
    import sys

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not sys.stdout.isatty():
        for finding in findings:
            advice = f"\n{'':9}→ {finding.advice}" if finding.advice else ""
            print(f"{finding.severity:<7}  {finding.name}: {finding.found}{advice}")
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        what = Text.assemble((finding.name, "bold"), ": ", finding.found)
        if finding.advice:
            what.append(f"\n→ {finding.advice}", style="dim")
        table.add_row(Text(finding.severity, style=COLOURS[finding.severity]), what)
    Console(highlight=False).print(table)
