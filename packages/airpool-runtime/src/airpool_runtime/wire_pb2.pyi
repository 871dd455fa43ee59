from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNSPECIFIED: _ClassVar[Reason]
    TERMS: _ClassVar[Reason]
    BUDGET: _ClassVar[Reason]
    DISK: _ClassVar[Reason]
    REPEATED: _ClassVar[Reason]
    RANKING: _ClassVar[Reason]
    ROUND: _ClassVar[Reason]
    INTERNAL: _ClassVar[Reason]
UNSPECIFIED: Reason
TERMS: Reason
BUDGET: Reason
DISK: Reason
REPEATED: Reason
RANKING: Reason
ROUND: Reason
INTERNAL: Reason

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FromDevice(_message.Message):
    __slots__ = ("hello", "ready", "advert", "answer", "answers", "balance")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    ADVERT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    BALANCE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    ready: Ready
    advert: bytes
    answer: RoundMessage
    answers: Answers
    balance: Balance
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., advert: _Optional[bytes] = ..., answer: _Optional[_Union[RoundMessage, _Mapping]] = ..., answers: _Optional[_Union[Answers, _Mapping]] = ..., balance: _Optional[_Union[Balance, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("device", "simulated", "protocol", "version", "digest", "terms")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    device: int
    simulated: bool
    protocol: int
    version: str
    digest: str
    terms: str
    def __init__(self, device: _Optional[int] = ..., simulated: _Optional[bool] = ..., protocol: _Optional[int] = ..., version: _Optional[str] = ..., digest: _Optional[str] = ..., terms: _Optional[str] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("inferences", "left", "advert")
    INFERENCES_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    ADVERT_FIELD_NUMBER: _ClassVar[int]
    inferences: int
    left: int
    advert: bytes
    def __init__(self, inferences: _Optional[int] = ..., left: _Optional[int] = ..., advert: _Optional[bytes] = ...) -> None: ...

class Balance(_message.Message):
    __slots__ = ("budget", "spent", "delta", "neighbours", "waits")
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    budget: float
    spent: float
    delta: float
    neighbours: str
    waits: Reason
    def __init__(self, budget: _Optional[float] = ..., spent: _Optional[float] = ..., delta: _Optional[float] = ..., neighbours: _Optional[str] = ..., waits: _Optional[_Union[Reason, str]] = ...) -> None: ...

class Answers(_message.Message):
    __slots__ = ("signals", "withdrawals")
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWALS_FIELD_NUMBER: _ClassVar[int]
    signals: _containers.RepeatedCompositeFieldContainer[Signal]
    withdrawals: _containers.RepeatedCompositeFieldContainer[Withdrawal]
    def __init__(self, signals: _Optional[_Iterable[_Union[Signal, _Mapping]]] = ..., withdrawals: _Optional[_Iterable[_Union[Withdrawal, _Mapping]]] = ...) -> None: ...

class Signal(_message.Message):
    __slots__ = ("id", "samples", "scale", "charged")
    ID_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    CHARGED_FIELD_NUMBER: _ClassVar[int]
    id: str
    samples: bytes
    scale: float
    charged: float
    def __init__(self, id: _Optional[str] = ..., samples: _Optional[bytes] = ..., scale: _Optional[float] = ..., charged: _Optional[float] = ...) -> None: ...

class Withdrawal(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: Reason
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[_Union[Reason, str]] = ...) -> None: ...

class RoundMessage(_message.Message):
    __slots__ = ("id", "content")
    ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    content: bytes
    def __init__(self, id: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class RoundOver(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ToDevice(_message.Message):
    __slots__ = ("rejected", "welcome", "turn", "message", "over", "unready")
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    UNREADY_FIELD_NUMBER: _ClassVar[int]
    rejected: str
    welcome: Welcome
    turn: Turn
    message: RoundMessage
    over: RoundOver
    unready: str
    def __init__(self, rejected: _Optional[str] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., turn: _Optional[_Union[Turn, _Mapping]] = ..., message: _Optional[_Union[RoundMessage, _Mapping]] = ..., over: _Optional[_Union[RoundOver, _Mapping]] = ..., unready: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    def __init__(self, version: _Optional[str] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("announcements",)
    ANNOUNCEMENTS_FIELD_NUMBER: _ClassVar[int]
    announcements: _containers.RepeatedCompositeFieldContainer[Announcement]
    def __init__(self, announcements: _Optional[_Iterable[_Union[Announcement, _Mapping]]] = ...) -> None: ...

class Announcement(_message.Message):
    __slots__ = ("id", "number", "gain", "devices", "epoch", "digest", "inference", "slot", "ended", "moment", "window")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    GAIN_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    gain: float
    devices: int
    epoch: str
    digest: str
    inference: str
    slot: int
    ended: _containers.RepeatedScalarFieldContainer[str]
    moment: float
    window: float
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., gain: _Optional[float] = ..., devices: _Optional[int] = ..., epoch: _Optional[str] = ..., digest: _Optional[str] = ..., inference: _Optional[str] = ..., slot: _Optional[int] = ..., ended: _Optional[_Iterable[str]] = ..., moment: _Optional[float] = ..., window: _Optional[float] = ...) -> None: ...

class SlotRequest(_message.Message):
    __slots__ = ("id", "number", "asked", "digest", "slot", "ended")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    asked: str
    digest: str
    slot: int
    ended: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., asked: _Optional[str] = ..., digest: _Optional[str] = ..., slot: _Optional[int] = ..., ended: _Optional[_Iterable[str]] = ...) -> None: ...

class SlotOutcome(_message.Message):
    __slots__ = ("y", "devices", "carrier", "simulated", "withheld", "reason", "spent", "rejected", "course")
    Y_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CARRIER_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    COURSE_FIELD_NUMBER: _ClassVar[int]
    y: bytes
    devices: int
    carrier: bool
    simulated: bool
    withheld: bool
    reason: str
    spent: bool
    rejected: bool
    course: Course
    def __init__(self, y: _Optional[bytes] = ..., devices: _Optional[int] = ..., carrier: _Optional[bool] = ..., simulated: _Optional[bool] = ..., withheld: _Optional[bool] = ..., reason: _Optional[str] = ..., spent: _Optional[bool] = ..., rejected: _Optional[bool] = ..., course: _Optional[_Union[Course, _Mapping]] = ...) -> None: ...

class Course(_message.Message):
    __slots__ = ("announced", "charged", "last", "summed")
    ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    CHARGED_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    SUMMED_FIELD_NUMBER: _ClassVar[int]
    announced: float
    charged: float
    last: float
    summed: float
    def __init__(self, announced: _Optional[float] = ..., charged: _Optional[float] = ..., last: _Optional[float] = ..., summed: _Optional[float] = ...) -> None: ...

class AirStatus(_message.Message):
    __slots__ = ("ready", "quorum", "connected", "able", "faults", "version", "devices", "versions", "balances")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    class BalancesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: Balance
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[Balance, _Mapping]] = ...) -> None: ...
    READY_FIELD_NUMBER: _ClassVar[int]
    QUORUM_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    ABLE_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    BALANCES_FIELD_NUMBER: _ClassVar[int]
    ready: int
    quorum: int
    connected: int
    able: int
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    version: str
    devices: int
    versions: _containers.ScalarMap[int, str]
    balances: _containers.MessageMap[int, Balance]
    def __init__(self, ready: _Optional[int] = ..., quorum: _Optional[int] = ..., connected: _Optional[int] = ..., able: _Optional[int] = ..., faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ..., version: _Optional[str] = ..., devices: _Optional[int] = ..., versions: _Optional[_Mapping[int, str]] = ..., balances: _Optional[_Mapping[int, Balance]] = ...) -> None: ...

class Fault(_message.Message):
    __slots__ = ("device", "reason", "seconds")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    device: int
    reason: str
    seconds: float
    def __init__(self, device: _Optional[int] = ..., reason: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...

class Score(_message.Message):
    __slots__ = ("id", "device", "devices", "noisy_score")
    ID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    NOISY_SCORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    device: int
    devices: int
    noisy_score: float
    def __init__(self, id: _Optional[str] = ..., device: _Optional[int] = ..., devices: _Optional[int] = ..., noisy_score: _Optional[float] = ...) -> None: ...

class Selected(_message.Message):
    __slots__ = ("selected",)
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    selected: bool
    def __init__(self, selected: _Optional[bool] = ...) -> None: ...

class ResultRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("id", "number", "status", "label", "name", "probabilities", "logits", "devices", "spent", "seconds", "reason", "simulated", "note", "guarantee", "slots", "cap", "sure", "probability")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    LOGITS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    GUARANTEE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    SURE_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    status: str
    label: int
    name: str
    probabilities: _containers.RepeatedScalarFieldContainer[float]
    logits: _containers.RepeatedScalarFieldContainer[float]
    devices: int
    spent: bool
    seconds: float
    reason: str
    simulated: bool
    note: str
    guarantee: Guarantee
    slots: int
    cap: int
    sure: bool
    probability: float
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., status: _Optional[str] = ..., label: _Optional[int] = ..., name: _Optional[str] = ..., probabilities: _Optional[_Iterable[float]] = ..., logits: _Optional[_Iterable[float]] = ..., devices: _Optional[int] = ..., spent: _Optional[bool] = ..., seconds: _Optional[float] = ..., reason: _Optional[str] = ..., simulated: _Optional[bool] = ..., note: _Optional[str] = ..., guarantee: _Optional[_Union[Guarantee, _Mapping]] = ..., slots: _Optional[int] = ..., cap: _Optional[int] = ..., sure: _Optional[bool] = ..., probability: _Optional[float] = ...) -> None: ...

class Guarantee(_message.Message):
    __slots__ = ("device", "local", "object", "delta", "neighbours")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    device: float
    local: float
    object: float
    delta: float
    neighbours: str
    def __init__(self, device: _Optional[float] = ..., local: _Optional[float] = ..., object: _Optional[float] = ..., delta: _Optional[float] = ..., neighbours: _Optional[str] = ...) -> None: ...

class LedgerReport(_message.Message):
    __slots__ = ("key", "export")
    KEY_FIELD_NUMBER: _ClassVar[int]
    EXPORT_FIELD_NUMBER: _ClassVar[int]
    key: str
    export: str
    def __init__(self, key: _Optional[str] = ..., export: _Optional[str] = ...) -> None: ...

class LedgerHead(_message.Message):
    __slots__ = ("row",)
    ROW_FIELD_NUMBER: _ClassVar[int]
    row: str
    def __init__(self, row: _Optional[str] = ...) -> None: ...
