"""The verb that serves: an HTTP interface and the explorer page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import emit, say

RunFolders = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Run folders; the first one answers by default.")
]


def serve(
    runs: RunFolders,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on. Any but loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8311,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Ordinary file with the bearer token; by default the variable CONJOIN_TOKEN."),
    ] = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="A name by which clients reach this machine.")] = None,
    allow_origin: Annotated[list[str] | None, typer.Option(help="Another site whose pages may ask.")] = None,
    studies: Annotated[Path | None, typer.Option(help="Folder whose study reports are shown.")] = None,
    map: Annotated[str, typer.Option(help="Layout of the map: pca, umap or pacmap; computed once and stored.")] = "pca",
    rate: Annotated[
        float,
        typer.Option(min=0.1, help="Requests a second that one client may send; those with a wrong token count too."),
    ] = 1000.0,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time limit of a request.")] = 30.0,
    sending_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time that a client has to send a request's head, and again its body.")
    ] = 10.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections that may be open, of all clients.")] = 1000,
    connections_per_client: Annotated[
        int,
        typer.Option(
            min=0,
            help="Connections of one client address. A further one closes the one that has waited longest for its "
            "client. 0: no limit, for a proxy in front that has limits of its own.",
        ),
    ] = 128,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Proxy (address or network) whose X-Forwarded-For header names the client, for --rate and "
            "--connections-per-client. The header is ignored from all others.",
        ),
    ] = None,
    batching: Annotated[bool, typer.Option(help="Score questions that arrive together together.")] = True,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Serve runs over HTTP, with the explorer page.

    Logs are JSON lines on standard error; where nobody reads them, lines are dropped and counted. Ctrl-C finishes what
    is under way and stops. /healthz and /readyz answer whatever the limits say, and without a token.

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
        say("the explorer page was not built into this installation; the HTTP interface is served all the same")
    token = access.read_token(token_file)
    if token is None and not access.is_loopback(host):
        raise UsageError(
            f"{host} can be reached from other machines: set a token (CONJOIN_TOKEN or --token-file), "
            "or listen on 127.0.0.1"
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
    client_address.Clients(settings.proxies)  # fails here, before anything slow begins
    with uvicorn_server.bind(host, port) as listening:
        from conjoin.server.app import create_app
        from conjoin.server.open_runs import open_runs
        from conjoin.server.projection import projection_of

        shelf = open_runs(runs, settings=settings, weights=weights)
        if map != "pca":
            for run in shelf.runs.values():
                projection_of(run, map)
        url, names = uvicorn_server.url_of(listening), list(shelf.runs)

        def started() -> None:
            if json:
                emit({"url": url, "runs": names})
                sys.stdout.flush()
            else:
                say(f"{', '.join(names)}: {url}  (Ctrl-C stops)")

        metrics = Metrics()
        uvicorn_server.run_server(
            create_app(shelf, settings, metrics=metrics), listening, settings=settings, metrics=metrics, started=started
        )
