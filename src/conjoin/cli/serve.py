"""`conjoin serve`: the HTTP service and the explorer page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, say

ACCESS = "Address and access"
LIMITS = "Limits"
RunFolders = Annotated[
    list[Path],
    typer.Argument(metavar="RUN", help="One or more run folders. Requests that name no run use the first one."),
]


def serve(
    runs: RunFolders,
    *,
    host: Annotated[
        str,
        typer.Option(rich_help_panel=ACCESS, help="Address to listen on. Every address but loopback needs a token."),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, rich_help_panel=ACCESS, help="Port to listen on; 0 for any free port."),
    ] = 8311,
    token_file: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=ACCESS,
            help="File with the bearer token.  [default: the environment variable CONJOIN_TOKEN]",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=ACCESS, help="A host name that clients may use; repeat for more."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=ACCESS, help="Another site whose pages may send requests; repeat for more."),
    ] = None,
    studies: Annotated[Path | None, typer.Option(help="Folder of studies whose reports the explorer shows.")] = None,
    map: Annotated[
        str, typer.Option(help="Layout of the entity map: pca, umap or pacmap; computed once and stored.")
    ] = "pca",
    rate: Annotated[
        float,
        typer.Option(
            min=0.1,
            rich_help_panel=LIMITS,
            help="Most requests per second of one client; also counts requests with a wrong token.",
        ),
    ] = 1000.0,
    seconds: Annotated[float, typer.Option(min=0.1, rich_help_panel=LIMITS, help="Timeout of a request.")] = 30.0,
    sending_seconds: Annotated[
        float,
        typer.Option(
            min=0.1, rich_help_panel=LIMITS, help="Timeout for a client to send the headers, and again for the body."
        ),
    ] = 10.0,
    connections: Annotated[
        int, typer.Option(min=1, rich_help_panel=LIMITS, help="Most open connections of all clients.")
    ] = 1000,
    connections_per_client: Annotated[
        int,
        typer.Option(
            min=0,
            rich_help_panel=LIMITS,
            help="Most open connections of one client address; one more closes the connection that was idle longest. "
            "0: no limit, for use behind a proxy with limits.",
        ),
    ] = 128,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            rich_help_panel=ACCESS,
            help="Proxy (address or network) whose X-Forwarded-For header is trusted to name the client, for --rate "
            "and --connections-per-client; repeat for more.",
        ),
    ] = None,
    batching: Annotated[bool, typer.Option(help="Score questions that arrive at the same time in one batch.")] = True,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Serve runs over HTTP, with the explorer page for browsers.

    The log is JSON lines on standard error; if nobody reads them, lines are dropped and counted. Ctrl-C finishes the
    pending requests and stops. /healthz and /readyz always answer, without a token and without limits.

    \b
    conjoin serve runs/atlas
    conjoin serve runs/atlas runs/atlas-conj --port 9000
    CONJOIN_TOKEN=… conjoin serve runs/atlas --host 0.0.0.0 --allow-host kg.example.org
    conjoin serve runs/atlas --trusted-proxy 127.0.0.1 --allow-host kg.example.org
    """
    from conjoin.errors import NotInstalled, UsageError

    try:
        from conjoin.server import access, client_address, static_page, uvicorn_server
        from conjoin.server.metrics import Metrics
        from conjoin.server.settings import ServerSettings
    except ModuleNotFoundError as error:
        raise NotInstalled(error.name or "fastapi", "serve", "The service") from error

    if not (static_page.STATIC / "index.html").is_file() and not json:
        say("This installation has no explorer page; only the HTTP interface is served. `make page` builds the page.")
    token = access.read_token(token_file)
    if token is None and not access.is_loopback(host):
        raise UsageError(
            f"--host {host} is reachable from other machines, so a token is required. Set CONJOIN_TOKEN or "
            "--token-file, or use --host 127.0.0.1."
        )
    settings = ServerSettings(
        token=token,
        hosts=(host, *(allow_host or ())),
        origins=tuple(allow_origin or ()),
        studies=studies,
        map=map,
        seconds=seconds,
        sending_seconds=sending_seconds,
        connections=connections,
        connections_per_client=connections_per_client,
        proxies=tuple(trusted_proxy or ()),
        rate=rate,
        burst=max(2 * rate, 1.0),
        batch=256 if batching else 1,
    )
    client_address.Clients(settings.proxies)  # refuse wrong addresses before slow work starts
    with uvicorn_server.bind(host, port) as listening:
        from conjoin.server.app import create_app
        from conjoin.server.open_runs import open_runs
        from conjoin.server.projection import projection_of

        opened = open_runs(runs, settings=settings, weights=weights)
        if map != "pca":
            for run in opened.runs.values():
                projection_of(run, map)
        url, names = uvicorn_server.url_of(listening), list(opened.runs)

        def started() -> None:
            if json:
                emit({"url": url, "runs": names})
                sys.stdout.flush()
            else:
                say(f"{', '.join(names)}: {url}  (Ctrl-C stops)")

        metrics = Metrics()
        uvicorn_server.run_server(
            create_app(opened, settings, metrics=metrics),
            listening,
            settings=settings,
            metrics=metrics,
            started=started,
        )
