"""This is about the command line: what can be said, and to which module it goes.

Each command's module is imported when it is asked for: `--help` must not wait for a broker client.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aalis_cli.children import only_of, replicas_of
from aalis_cli.failure import Failed
from aalis_cli.place import Place, default_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 not understood."""
    # Until everything is imported there is no garbage; looking for it would cost a quarter more.
    gc.disable()
    options = _parser().parse_args(arguments)
    # What the SDK logs is for services; a person reads what the command says.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        return options.run(options)
    except Failed as failure:
        sys.stdout.flush()
        sys.stderr.write(f"aalis: {failure}\n")
        return failure.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aalis", description="A chat-agent platform on NATS.", allow_abbrev=False
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        name: str, text: str, run: Callable[[argparse.Namespace], int]
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        made.set_defaults(run=run)
        made.add_argument(
            "--data", type=Path, metavar="DIR", default=default_directory(), help="data directory"
        )
        return made

    up = command("up", "run the platform on this machine until Ctrl-C", _up)
    up.add_argument("--nats", metavar="URL", help="use this NATS server instead of starting one")
    up.add_argument("--redis", metavar="URL", help="use this cache instead of starting one")
    up.add_argument(
        "--port", type=int, default=4222, help="of the NATS server that is started; 0 = a free one"
    )
    up.add_argument(
        "--replicas",
        type=_or_refuse(replicas_of),
        default={},
        metavar="NAME=N,…",
        help="more than one process of a service",
    )
    up.add_argument(
        "--only",
        type=_or_refuse(only_of),
        default=None,
        metavar="NAME,…",
        help="start only these services",
    )

    ask = command("ask", "send one message and print the reply", _ask)
    ask.add_argument("text", metavar="TEXT", help="what to say; - reads it from standard input")
    ask.add_argument("--session", metavar="ID", help="the conversation to go on with")
    ask.add_argument("--platform", default="cli", help="the adapter to speak as")
    ask.add_argument("--json", action="store_true", help="print the whole answer as one object")
    ask.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="seconds to wait for the reply"
    )
    ask.add_argument("--nats", metavar="URL", help="the stack at this NATS server")

    chat = command("chat", "talk; the text appears as it is written", _chat)
    chat.add_argument("--session", metavar="ID", help="the conversation to go on with")
    chat.add_argument("--platform", default="cli", help="the adapter to speak as")
    chat.add_argument(
        "--timeout", type=float, default=300.0, metavar="S", help="seconds to wait for a reply"
    )
    chat.add_argument("--nats", metavar="URL", help="the stack at this NATS server")

    topology = command("topology", "make the streams and consumers, or see what lacks", _topology)
    topology.add_argument("action", choices=("apply", "verify"))
    topology.add_argument(
        "--nats", metavar="URL", help="the NATS server; default: the running stack's"
    )
    topology.add_argument(
        "--replicas",
        type=int,
        default=1,
        metavar="N",
        help="copies of each stream (3 in production)",
    )
    topology.add_argument(
        "--wait", type=float, default=0.0, metavar="S", help="seconds to wait for the server"
    )

    doctor = command("doctor", "look at everything and say what to do", _doctor)
    doctor.add_argument("--nats", metavar="URL", help="the stack at this NATS server")
    doctor.add_argument("--json", action="store_true", help="print the findings as one object")

    dead = command("dead", "messages that could not be handled, and why", _dead)
    dead.add_argument("action", choices=("list", "show", "retry"))
    dead.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="as listed")
    dead.add_argument("--nats", metavar="URL", help="the stack at this NATS server")

    turn = command("turn", "what happened in a turn, and who owned it when", _turn)
    turn.add_argument("action", choices=("show",))
    turn.add_argument("turn_id", metavar="ID", help="as in a reply's turnId, or in the logs")
    turn.add_argument("--json", action="store_true", help="print each entry as an object on a line")
    turn.add_argument("--nats", metavar="URL", help="the stack at this NATS server")

    chaos = command(
        "chaos", "kill processes while the platform works; see that nothing is lost", _chaos
    )
    _add_chaos_options(chaos)

    conform = command("conform", "check a vector file against the agent's pure parts", _conform)
    conform.add_argument("kind", metavar="KIND", help="what the lines are about")
    conform.add_argument("file", metavar="FILE", type=Path, help="one JSON object a line")

    bench = command("bench", "run a measuring script of benchmarks/", _bench)
    bench.add_argument("name", metavar="NAME")
    bench.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…", help="passed on to it")
    return parser


def _add_chaos_options(chaos: argparse.ArgumentParser) -> None:
    chaos.add_argument("--matrix", action="store_true", help="kill at each failpoint, one by one")
    chaos.add_argument(
        "--freeze", action="store_true", help="with --matrix: freeze and wake instead of killing"
    )
    chaos.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="with --matrix: trials with this in their names; may be given several times",
    )
    chaos.add_argument(
        "--rolling", action="store_true", help="restart every process under load, one by one"
    )
    chaos.add_argument(
        "--rate", type=float, default=50.0, metavar="R", help="with --rolling: turns a second"
    )
    chaos.add_argument("--turns", type=int, default=200, metavar="N", help="how much is said")
    chaos.add_argument("--faults", type=int, default=20, metavar="K", help="how much goes wrong")
    chaos.add_argument("--seed", type=int, default=1, metavar="S", help="decides the rest")
    chaos.add_argument("--sessions", type=int, default=24, metavar="N", help="who talk at once")
    chaos.add_argument(
        "--pace", type=float, default=3.0, metavar="S", help="seconds between two faults"
    )


def _or_refuse(read: Callable[[str], object]) -> Callable[[str], object]:
    """Make argparse print the reader's own words instead of 'invalid value'."""

    def checked(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def _place(options: argparse.Namespace) -> Place:
    return Place(options.data.absolute())


def _up(options: argparse.Namespace) -> int:
    from aalis_cli.stack import Plan
    from aalis_cli.up import up

    plan = Plan(
        nats=options.nats,
        redis=options.redis,
        services=options.only or Plan.services,
        replicas=tuple(options.replicas.items()),
        port=options.port,
    )
    return up(_place(options), plan)


def _ask(options: argparse.Namespace) -> int:
    from aalis_cli.ask import Question, ask

    text = sys.stdin.read().removesuffix("\n") if options.text == "-" else options.text
    question = Question(
        text=text,
        session_id=options.session or None,
        platform=options.platform,
        as_json=options.json,
        timeout=options.timeout,
        nats=options.nats,
    )
    return ask(_place(options), question)


def _chat(options: argparse.Namespace) -> int:
    from aalis_cli.chat import Talk, chat

    talk = Talk(options.session or None, options.platform, options.timeout, options.nats)
    return chat(_place(options), talk)


def _topology(options: argparse.Namespace) -> int:
    from aalis_cli import provision

    if options.action == "verify":
        return provision.verify(_place(options), options.nats)
    return provision.apply(_place(options), options.nats, options.replicas, options.wait)


def _doctor(options: argparse.Namespace) -> int:
    from aalis_cli.doctor import doctor

    return doctor(_place(options), options.nats, as_json=options.json)


def _dead(options: argparse.Namespace) -> int:
    from aalis_cli.dead import dead

    return dead(_place(options), options.nats, options.action, options.numbers)


def _turn(options: argparse.Namespace) -> int:
    from aalis_cli.turn import show

    return show(_place(options), options.nats, options.turn_id, as_json=options.json)


def _chaos(options: argparse.Namespace) -> int:
    from aalis_cli.chaos.command import Tries, chaos
    from aalis_cli.chaos.rolling import Traffic
    from aalis_cli.chaos.storm import Weather

    if options.matrix:
        return chaos(Tries(tuple(options.only), options.freeze))
    if options.rolling:
        return chaos(Traffic(options.rate, options.seed))
    return chaos(
        Weather(options.turns, options.faults, options.seed, options.sessions, options.pace)
    )


def _conform(options: argparse.Namespace) -> int:
    from aalis_cli.conform import conform

    return conform(options.kind, options.file)


def _bench(options: argparse.Namespace) -> int:
    from aalis_cli.bench import bench

    return bench(options.name, options.arguments)
