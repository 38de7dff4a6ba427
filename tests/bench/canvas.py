"""Figures as PNG files of 800 x 450 pixels: what is the same for all of them. matplotlib is
imported when they are drawn.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any


class Canvas:
    """Draws into `folder`, file names beginning with `prefix`; `able` says whether there is a
    matplotlib to draw with.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder, self.prefix = folder, prefix
        self.written: list[Path] = []
        try:
            import matplotlib
        except ImportError:
            self.able = False
            return
        matplotlib.use("Agg")
        self.able = True

    def _figure(self, columns: int, *, share_y: bool = False) -> tuple[Any, Sequence[Any]]:
        """A row of axes."""
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(
            1,
            columns,
            figsize=(8, 4.5),
            dpi=100,
            squeeze=False,
            layout="constrained",
            sharey=share_y,
        )
        return figure, axes[0]

    @staticmethod
    def _label(axes: Any, x: str, y: str) -> None:
        """What the axes are, and a quiet frame."""
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(True, alpha=0.3, which="major")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)

    def _finish(
        self, figure: Any, axes: Any, name: str, title: str, x: str, y: str, *, legend: bool = True
    ) -> None:
        """Axes, legend and file of a figure with one set of axes."""
        self._label(axes, x, y)
        if legend:
            figure.legend(loc="outside right upper", fontsize=8, frameon=False)
        self._save(figure, name, title)

    def _save(self, figure: Any, name: str, title: str) -> None:
        """256 colours are enough, and a third of the bytes. Under another name first, as the JSON
        is.
        """
        from matplotlib import pyplot
        from PIL import Image

        figure.suptitle(title, fontsize=11)
        file = self.folder / f"{self.prefix}-{name}.png"
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}")
        try:
            drawn = BytesIO()
            figure.savefig(drawn, format="png")
            Image.open(drawn).convert("RGB").quantize(256).save(
                unfinished, format="png", optimize=True
            )
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
            pyplot.close(figure)
        self.written.append(file)
