"""The demo, and the embedded broker it runs on."""


def run_demo(reviews: int | None, k: int, as_json: bool) -> int:
    """Run the demo on standard output; return its exit code.

    Args:
        reviews: how many of the bundled ones; None: all.
        k: sentences in a summary.
        as_json: summary changes and closing figures as JSON lines.

    Raises:
        CoversummError: something did not work; all processes and files are gone all the same.
        KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP; likewise.
    """
    from worker.demo.play import play

    play(reviews, k, as_json)
    return 0
