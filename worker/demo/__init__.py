"""The demo, and the embedded broker it runs on."""


def run_demo(
    reviews: int | None, k: int, as_json: bool, is_brief: bool = False, is_served: bool = False
) -> int:
    """Run the demo on standard output; return its exit code.

    Args:
        reviews: how many of the bundled ones; None: all.
        k: sentences in a summary.
        as_json: summary changes and closing figures as JSON lines.
        is_brief: reviews that a slow processor does not get to in some seconds are left out, and it
            is told how many.
        is_served: the worker's page is told of first, and stays up until Ctrl-C.

    Raises:
        CoversummError: something did not work; all processes and files are gone all the same.
        KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP; likewise.
    """
    from worker.demo.play import play

    play(reviews, k, as_json, is_brief, is_served)
    return 0
