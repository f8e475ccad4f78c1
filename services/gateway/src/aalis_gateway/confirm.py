"""This is about confirming: a person is asked, and nothing runs without an answer (CMD-14, 15).

The board of a session lives in KV `sessions` beside its record, under `confirm.<session>`, written
by compare-and-set; every replica keeps a live copy of the newest boards, so an ordinary message
costs a look into a dict. Whoever changes a board says what follows from it: the command
that was confirmed, the next question. All of that carries derived ids.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aalis_contracts import subjects
from aalis_contracts.contract import InvalidBody
from aalis_contracts.errors import Fault, InvalidRequest
from aalis_contracts.events import AgentAbort
from aalis_contracts.messages import OutgoingMessage
from aalis_contracts.rpc import ConfirmAnswer, ConfirmAsk
from aalis_gateway import identity, questions
from aalis_gateway.passage import Ended, Passage, handled
from aalis_gateway.questions import Board, Closed, Given, Question
from aalis_sdk.authority import identity as identity_of
from aalis_sdk.buckets import Bucket
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, TooLarge
from aalis_sdk.serving import end
from aalis_sdk.topology import SESSIONS

if TYPE_CHECKING:
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.registry import CommandEntry
    from aalis_contracts.rpc import CommandRun
    from aalis_gateway.outbound import Outbound
    from aalis_gateway.running import Runner
    from aalis_sdk.mesh import Mesh, Offer

log = Log(__name__)
_PREFIX: Final = "confirm."
_SESSIONS: Final = 500
_TRIES: Final = 20


class Confirm:
    """Asks people, takes their answers, and does what they allowed."""

    def __init__(
        self,
        mesh: Mesh,
        outbound: Outbound,
        runner: Runner,
        texts: Catalogue,
        seconds: float,
        now_ms: Callable[[], int],
    ) -> None:
        self._mesh = mesh
        self._outbound = outbound
        self._runner = runner
        self._texts = texts
        self._limit_ms = int(seconds * 1000)
        self._now = now_ms
        self._bucket = Bucket(mesh, SESSIONS)
        self._boards: OrderedDict[str, Board] = OrderedDict()
        self._waiting: dict[str, list[asyncio.Future[questions.Answer]]] = {}
        self._offers: list[Offer] = []
        self._entry: Callable[[str], CommandEntry | None] = lambda _: None
        self._watch: asyncio.Task[None] | None = None
        self._reload: asyncio.Task[None] | None = None

    def resolve_with(self, entry: Callable[[str], CommandEntry | None]) -> None:
        """Say how a confirmed command's entry is found when its time comes."""
        self._entry = entry

    async def start(self) -> None:
        """Hear all boards, and answer `gateway.confirm.ask`."""
        await self._bucket.hear(f"{_PREFIX}*", self._heard)
        self._mesh.reconnected.append(self._read_again)
        await self._read_all()
        self._offers = [
            await self._mesh.respond(subjects.CONFIRM_ASK, ConfirmAsk, self._ask),
            await self._mesh.listen(
                subjects.ABORT, AgentAbort, self._aborted, queue="gateway-confirm"
            ),
        ]
        self._watch = asyncio.create_task(self._keep_watching())

    async def stop(self) -> None:
        """Ask no more; the questions stay for the other replicas."""
        if self._watch is not None:
            await end(self._watch)
        for waiters in self._waiting.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(Fault("this gateway is leaving; ask again", "absent"))
        for offer in self._offers:
            await offer.withdraw()

    async def __call__(self, passage: Passage) -> Ended | None:
        """Take the message as the answer to the session's open question, if it is that."""
        message = passage.message
        board = self._boards.get(message.session_id)
        if board is None or identity.is_internal(message) or message.notice_type:
            return None
        given = questions.given_by(board, passage.key)
        if given is None:
            user = _user(message.platform, message.user_id)
            if board.open is None or board.open.user != user:
                return None
            given, board = await self._take(passage, user)
        if given is None:
            return None
        await self._follow(given, board)
        return handled(f"answered a question: {given.answer}")

    async def _take(self, passage: Passage, user: str) -> tuple[Given | None, Board]:
        """Take an answer on the newest board; another replica may have been quicker."""
        given: Given | None = None

        def take(board: Board) -> Board | None:
            nonlocal given
            given = questions.given_by(board, passage.key)
            if given is not None:
                return None
            closed = questions.answer(
                board, user, passage.message.content, passage.key, self._now()
            )
            given = closed.given if closed is not None else None
            return closed.board if closed is not None else None

        board = await self._change(passage.message.session_id, take)
        return given, board

    async def need_not_ask(self, call: CommandRun, mode: str) -> bool:
        """Say whether this person has spared himself the question for a while."""
        board, _ = await self._read(call.context.session_id)
        user = _user(call.context.platform, call.context.user_id)
        return questions.may_skip(board, user, mode, self._now())

    async def ask_for(self, entry: CommandEntry, call: CommandRun, mode: str) -> None:
        """Ask whether a command may run; it runs when the answer comes."""
        context = call.context
        question = Question(
            key=context.key,
            prompt=self._texts.text("confirmCommand", name=entry.path),
            mode="always" if mode == "always" else "session",
            session_id=context.session_id,
            platform=context.platform,
            user=_user(context.platform, context.user_id),
            command=call,
        )
        if not await self._put(question):
            await self._runner.say(call, self._texts.text("confirmBusy", name=entry.path))

    async def _ask(self, request: ConfirmAsk) -> ConfirmAnswer:
        """Answer a request: the person's word, or `timeout`. Asking again joins the question."""
        user = _user(request.platform, request.user_id)
        board, _ = await self._read(request.session_id)
        if questions.may_skip(board, user, request.mode, self._now()):
            return ConfirmAnswer(answer="session")
        waiter: asyncio.Future[questions.Answer] = asyncio.get_running_loop().create_future()
        waiters = self._waiting.setdefault(request.key, [])
        waiters.append(waiter)
        try:
            question = Question(
                key=request.key,
                prompt=request.prompt,
                mode=request.mode,
                session_id=request.session_id,
                platform=request.platform,
                user=user,
            )
            if not await self._put(question):
                raise InvalidRequest("too many questions wait in this session", "conflict")
            board, _ = await self._read(request.session_id)
            known = board.answer_to(request.key)
            if known is not None:
                return ConfirmAnswer(answer=known)
            patience = (questions.MAX_WAITING + 1) * self._limit_ms / 1000
            async with asyncio.timeout(patience):
                return ConfirmAnswer(answer=await waiter)
        except TimeoutError:
            return ConfirmAnswer(answer="timeout")
        finally:
            waiters.remove(waiter)
            if not waiters:
                self._waiting.pop(request.key, None)

    async def _put(self, question: Question) -> bool:
        """Add a question and show it if it is the first; False when too many wait."""
        refused = False

        def add(board: Board) -> Board | None:
            nonlocal refused
            added = questions.add(board, question, self._now())
            refused = added is None
            return added

        board = await self._change(question.session_id, add)
        if not refused and board.open is not None and board.open.key == question.key:
            await self._show(question)
        return not refused

    async def _follow(self, given: Given, board: Board) -> None:
        """Do what an answer allows, then show the next question."""
        call = given.question.command
        if call is not None and given.answer in {"once", "session"}:
            entry = self._entry(call.path)
            if entry is None:
                await self._runner.say(call, self._texts.text("commandAbsent", name=call.path))
            else:
                await self._runner.run(entry, call)
        elif call is not None or given.answer == "timeout":
            key = "confirmTimeout" if given.answer == "timeout" else "confirmNo"
            await self._say(given.question, "closed", self._texts.text(key))
        if board.open is not None:
            await self._show(board.open)

    async def _show(self, question: Question) -> None:
        how = "confirmSession" if question.mode == "session" else "confirmOnce"
        seconds = f"{self._limit_ms / 1000:g}"
        text = f"{question.prompt}\n{self._texts.text(how, seconds=seconds)}"
        await self._say(question, "question", text)

    async def _say(self, question: Question, suffix: str, text: str) -> None:
        await self._outbound.send(
            OutgoingMessage(
                id=identity.derived(question.key, suffix),
                content=text,
                session_id=question.session_id,
                platform=question.platform,
                source="command" if question.command is not None else "system",
            )
        )

    async def _keep_watching(self) -> None:
        """Close questions whose time is over; of several replicas one succeeds."""
        while True:
            await asyncio.sleep(min(1.0, self._limit_ms / 4000))
            for session_id, board in list(self._boards.items()):
                if questions.is_expired(board, self._now(), self._limit_ms):
                    try:
                        await self._expire(session_id)
                    except (Fault, Absent, TooLarge) as error:
                        log.warning("question not closed", session=session_id, why=str(error))

    async def _expire(self, session_id: str) -> None:
        closed: Closed | None = None

        def expire(board: Board) -> Board | None:
            nonlocal closed
            closed = questions.expire(board, self._now(), self._limit_ms)
            return closed.board if closed is not None else None

        board = await self._change(session_id, expire)
        if closed is not None:
            await self._follow(closed.given, board)

    async def _aborted(self, event: AgentAbort) -> None:
        """Take back what an aborted turn has asked (SPEC AG-14)."""
        board = self._boards.get(event.session_id)
        if board is None:
            return
        prefix = f"{event.turn_id}." if event.turn_id else None
        lane = subjects.lane_key(event.session_id, event.lane)
        shown = board.open.key if board.open is not None else None
        after = await self._change(
            event.session_id,
            lambda newest: questions.withdraw(newest, prefix or f"{lane}:", self._now()),
        )
        if after.open is not None and after.open.key != shown:
            await self._show(after.open)

    # the boards --------------------------------------------------------------------------

    async def _change(self, session_id: str, change: Callable[[Board], Board | None]) -> Board:
        """Change a board by compare-and-set; None or the same board changes nothing."""
        key = _PREFIX + subjects.kv_key(session_id)
        for _ in range(_TRIES):
            board, revision = await self._read(session_id)
            after = change(board)
            if after is None or after == board:
                self._learn(session_id, board)
                return board
            if await self._bucket.update(key, after, revision, secrets.token_hex(8)) is not None:
                self._learn(session_id, after)
                return after
        message = f"the questions of session {session_id!r} are written by too many at once"
        raise Fault(message, "conflict")

    async def _read(self, session_id: str) -> tuple[Board, int]:
        record = await self._bucket.get(_PREFIX + subjects.kv_key(session_id))
        if record is None:
            return Board(), 0
        return _board(record.value), record.revision

    async def _heard(self, key: str, value: bytes | None) -> None:
        session_id = subjects.from_kv_key(key.removeprefix(_PREFIX))
        self._learn(session_id, _board(value) if value is not None else Board())

    def _learn(self, session_id: str, board: Board) -> None:
        """Keep the newest boards, and tell whoever waits for an answer."""
        for given in board.given:
            for waiter in self._waiting.get(given.question.key, []):
                if not waiter.done():
                    waiter.set_result(given.answer)
        self._boards[session_id] = board
        self._boards.move_to_end(session_id)
        while len(self._boards) > _SESSIONS:
            self._boards.popitem(last=False)

    def _read_again(self) -> None:
        self._reload = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        try:
            for record in await self._bucket.all(f"{_PREFIX}*"):
                await self._heard(record.key, record.value)
        except (Fault, Absent) as error:
            log.warning("open questions not read", reason=str(error))


def _board(value: bytes) -> Board:
    try:
        return Board.from_json(value)
    except InvalidBody as error:
        log.warning("questions unreadable; begun anew", reason=str(error))
        return Board()


def _user(platform: str, user_id: str | None) -> str:
    """Return who speaks, also when the platform does not say: then all of it is one person."""
    return identity_of(platform, user_id) or f"{subjects.token(platform)}:"
