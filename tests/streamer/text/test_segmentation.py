"""The words of Han text: the compiled segmenter against jieba itself."""

import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import SettingsError
from streamer.text import segmentation
from streamer.text.segmentation import Segmenter, jieba_file, segmenter, segmenter_with
from streamer.text.words import words
from tests.support.examples import examples
from tests.support.paths import ROOT
from tests.support.plain_jieba import plain_jieba
from tests.support.tiers import first_of

SENTENCES = [
    "清晨的雾气还没有散去，渔民们已经驾着小船出海捕鱼了。",
    "图书馆里安静得只能听见翻书的声音和窗外的雨声。",
    "这家面馆开了三十多年，老板坚持每天凌晨四点起来熬汤。",
    "工程师在凌晨两点修复了数据库的连接泄漏，系统恢复正常。",
    "他说的确实在理，可是大家并不愿意马上改变计划。",
    "研究生命的起源需要化学、物理和地质学的共同努力。",
    "结婚的和尚未结婚的都要参加下午的座谈会。",
    "南京市长江大桥的灯光在除夕夜里显得格外明亮。",
    "乒乓球拍卖完了，体育用品店的店员只好向顾客道歉。",
    "她把奶奶留下的旧毛衣拆了，重新织成一条围巾。",
    "火车缓缓驶出站台，送行的人群渐渐变成了一个小黑点。",
    "欧阳锋利用午休时间整理了诸葛亮北伐的年表。",
    "台風過後，許多道路被倒下的樹木阻斷，居民自發清理。",
    "臺北的夜市裡賣著蚵仔煎、滷肉飯和珍珠奶茶。",
    "据气象台预报，未来三天华北大部分地区将出现六级以上大风。",
    "小明硕士毕业于中国科学院计算所，后在日本京都大学深造。",
    "下雨天留客天留我不留，这句话有好几种断法。",
    "服务器每秒处理一万两千个请求，延迟不超过五毫秒。",
    "村口那棵老槐树据说是明朝洪武年间种下的。",
    "股市连续七个交易日下跌，分析师们众说纷纭。",
    "孩子们围着篝火唱歌跳舞，一直玩到月亮升得老高。",
    "医生建议病人少吃盐，多喝水，每天散步半个小时。",
    "黄山归来不看岳，五岳归来不看山，古人如是说。",
    "博物馆新近展出了一批唐代的三彩马和波斯银币。",
    "开源社区的志愿者把用户手册翻译成了十一种语言。",
    "这批货物因为报关单填写错误被海关扣留了两个星期。",
    "她在杭研大厦门口等了半个钟头，始终没有等到人。",
    "爷爷的收音机里传来咿咿呀呀的京剧唱腔。",
    "高铁从北京到上海只需要四个半小时，比飞机还方便。",
    "算法的时间复杂度从平方降到了线性对数级别。",
    "昨夜西风凋碧树，独上高楼，望尽天涯路。",
    "魑魅魍魉、饕餮貔貅，这些字小学生大多不认识。",
    "饭后我们沿着河堤走了很久，谁也没有先开口说话。",
    "消防队员用云梯把被困在五楼的老人救了下来。",
    "甲骨文里的许多字至今无人能够释读。",
    "王羲之的字帖被临摹了一千六百多年。",
    "机器人把零件一个一个地放进传送带旁边的箱子里。",
    "暴雨导致山体滑坡，两座村庄的电力和通讯一度中断。",
    "这首曲子由三个乐章组成，第二乐章最为悲伤。",
    "记者从发布会上获悉，新地铁线路将于明年年底通车。",
]
WHO = [
    "我们",
    "老张",
    "三位外国留学生",
    "那位戴眼镜的审稿人",
    "气象学家",
    "隔壁班的同学",
    "某互联网公司的产品经理",
    "欧阳修",
]
WHEN = ["昨天下午", "二〇二三年冬天", "每逢端午节", "凌晨三点钟", "改革开放以后", "趁着天还没黑"]
WHAT = [
    "在图书馆门口发现了一只受伤的白鹭",
    "把去年的财务报表重新核对了一遍",
    "讨论了人工智能对就业市场的影响",
    "走遍了长江中下游平原的大小城镇",
    "用毛笔抄写了整部红楼梦",
    "拒绝了对方提出的和解方案",
    "给山区的小学捐赠了两千册图书",
]

HAN = st.characters(min_codepoint=0x4E00, max_codepoint=0x9FD5)
DICTIONARY = [line.split(" ")[0] for line in jieba_file("dict.txt").decode().splitlines()]
SENTENCE_RUNS = [run for sentence in SENTENCES for run in re.findall("[\u4e00-\u9fd5]+", sentence)]
HAN_WORDS = [word for word in DICTIONARY if re.fullmatch("[\u4e00-\u9fd5]+", word)]
PIECES = st.sampled_from(HAN_WORDS) | st.sampled_from(HAN_WORDS).map(lambda word: word[:-1]) | st.text(HAN, max_size=3)


@pytest.fixture
def nothing_struck(monkeypatch: pytest.MonkeyPatch) -> None:
    """jieba keeps the words to split in one variable for all tokenizers; this empties it."""
    plain_jieba()
    monkeypatch.setattr(sys.modules["jieba.finalseg"], "Force_Split_Words", set())


def words_by(chosen: Segmenter, runs: Sequence[str]) -> list[list[str]]:
    """The words of every run."""
    joined, lengths = "".join(runs), np.array(list(map(len, runs)), np.int64)
    codepoints, starts = np.array(list(map(ord, joined)), np.uint32), np.cumsum(lengths) - lengths
    found_starts, found_lengths = chosen.segment(codepoints, starts, lengths, np.ones(len(runs), np.bool_))
    assert (np.diff(found_starts) == found_lengths[:-1]).all()
    found: list[list[str]] = [[] for _ in runs]
    numbers = np.searchsorted(starts, found_starts, side="right") - 1
    for number, start, length in zip(numbers.tolist(), found_starts.tolist(), found_lengths.tolist(), strict=True):
        found[number].append(joined[start : start + length])
    return found


def assert_segments_as_jieba(runs: Sequence[str], entries: Sequence[tuple[str, int | None]] = ()) -> list[list[str]]:
    own = segmenter_with("compiled", entries, "digest") if entries else segmenter("compiled")
    tokenizer = plain_jieba(entries)
    found = words_by(own, runs)
    assert found == [tokenizer.lcut(run) for run in runs]
    return found


# --- jieba's dictionary ----------------------------------------------------------------------------------------------


def test_sentences_are_segmented_as_by_jieba() -> None:
    sentences = SENTENCES + [f"{when}，{who}{what}。" for who, when, what in product(WHO, WHEN, WHAT)]
    runs = [run for sentence in sentences for run in re.findall("[\u4e00-\u9fd5]+", sentence)]
    assert len(runs) > 400
    found = assert_segments_as_jieba(runs)
    # Both dictionary words and words that only the hidden Markov model finds are among them.
    assert {"长江大桥", "图书馆", "杭研"} <= {word for one in found for word in one}
    assert "杭研" not in DICTIONARY


@pytest.mark.rest
def test_every_word_of_the_dictionary_is_segmented_as_by_jieba() -> None:
    """In threes, so that words also stand beside words."""
    shuffled = random.Random(5).sample(HAN_WORDS, len(HAN_WORDS))
    assert len(shuffled) > 340_000
    assert_segments_as_jieba(["".join(shuffled[at : at + 3]) for at in range(0, len(shuffled), 3)])


def test_single_characters_and_random_characters_are_segmented_as_by_jieba() -> None:
    every = list(map(chr, range(0x4E00, 0x9FD6)))
    assert words_by(segmenter("compiled"), every) == [[one] for one in every]
    drawn = random.Random(6)
    assert_segments_as_jieba(
        ["".join(drawn.choices(every, k=20_000)), *("".join(drawn.choices(every, k=5)) for _ in every)]
    )


@examples(200)
@given(st.lists(st.lists(PIECES, min_size=1, max_size=8).map("".join).filter(bool), max_size=5))
def test_words_parts_of_words_and_rare_characters_are_segmented_as_by_jieba(runs: list[str]) -> None:
    assert_segments_as_jieba(runs)


def test_runs_that_are_not_han_are_words_and_all_stay_in_order() -> None:
    codepoints = np.array(list(map(ord, "ab北京大学生c的")), np.uint32)
    starts, lengths = np.array([0, 2, 7, 8]), np.array([2, 5, 1, 1])
    for name in ("compiled", "jieba"):
        found = segmenter(name).segment(codepoints, starts, lengths, np.array([False, True, False, True]))
        assert [part.tolist() for part in found] == [[0, 2, 4, 7, 8], [2, 2, 3, 1, 1]]
        assert [part.dtype for part in found] == [np.int64, np.int64]


@pytest.mark.parametrize("name", ["compiled", "jieba"])
def test_an_empty_batch_has_no_words(name: segmentation.Name) -> None:
    none = np.zeros(0, np.int64)
    found = segmenter(name).segment(np.zeros(0, np.uint32), none, none, np.zeros(0, np.bool_))
    assert [part.tolist() for part in found] == [[], []]


def test_jieba_as_the_segmenter_gives_the_words_of_the_default() -> None:
    assert words(SENTENCES, "jieba", 2) == words(SENTENCES, "compiled", 2)


# --- more words ------------------------------------------------------------------------------------------------------

USERS: dict[str, list[tuple[str, int | None]]] = {
    "with frequencies": [("石墨烯电池", 1_000), ("江大桥", 900_000_000), ("的", 3), ("翻书的声音", 1)],
    "to be found": [
        ("石墨烯电池", None),
        ("江大桥", None),
        ("大", None),
        ("断桥", 7),
        ("研大厦", None),
        ("断桥", None),
    ],
    "mixed and foreign": [("卡拉OK厅", None), ("c++语言", 500), ("卡拉", None), ("\U00020000字", None), ("a b", None)],
    "struck": [("长江大桥", 0), ("杭研", 0), ("图书馆", 0), ("图书馆", 5), ("欧阳", 0), ("雾气", 9)],
}


@pytest.mark.usefixtures("nothing_struck")
@pytest.mark.parametrize("kind", sorted(USERS))
def test_a_users_words_change_the_segmentation_as_in_jieba(kind: str) -> None:
    runs = [*SENTENCE_RUNS, "石墨烯电池的寿命", "卡拉厅", "江大桥江大桥", "网易杭研大厦", "断桥残雪"]
    found = assert_segments_as_jieba(runs, USERS[kind])
    assert found != words_by(segmenter("compiled"), runs) or kind == "mixed and foreign"


@pytest.mark.usefixtures("nothing_struck")
@pytest.mark.parametrize("seed", first_of(*range(4)))
def test_random_words_and_frequencies_change_the_segmentation_as_in_jieba(seed: int) -> None:
    drawn = random.Random(seed)
    pieces = drawn.sample(HAN_WORDS, 300) + [chr(drawn.randint(0x4E00, 0x9FD5)) for _ in range(100)]
    entries: list[tuple[str, int | None]] = []
    for _ in range(200):
        word = "".join(drawn.choices(pieces, k=drawn.randint(1, 3)))
        entries.append(
            (word, drawn.choice([None, 0, 1, 30, 5_000, 10**9 - 1]) if seed % 2 else drawn.randint(1, 9_999))
        )
    known = [word for word, _ in entries]
    runs = ["".join(drawn.choices(pieces + known, k=drawn.randint(1, 9))) for _ in range(2_000)]
    assert_segments_as_jieba(runs, entries)


def test_a_table_without_room_is_made_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "_ENTRIES", 1 << 18)
    assert_segments_as_jieba(["石墨烯电池的寿命", *SENTENCE_RUNS], [("石墨烯电池", 1_000)])


def test_more_words_than_the_largest_table_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "_ENTRIES", 1 << 18)
    monkeypatch.setattr(segmentation, "ENTRIES_MAX", 1 << 19)
    with pytest.raises(SettingsError, match=r"fingerprint\.dictionary: holds too many words"):
        segmenter_with("compiled", [("石墨烯电池", 1_000)], "digest")


def test_a_users_words_change_their_own_segmenter_only() -> None:
    own = segmenter_with("compiled", [("石墨烯电池", 1_000)], "digest")
    assert words_by(own, ["石墨烯电池"]) == [["石墨烯电池"]]
    assert words_by(segmenter("compiled"), ["石墨烯电池"]) == [["石墨", "烯", "电池"]]


# --- names and loading -----------------------------------------------------------------------------------------------


def test_the_name_of_a_dictionary_tells_its_release_and_content_for_either_segmenter() -> None:
    name = segmenter("compiled").dictionary
    assert re.fullmatch(r"jieba \d+\.\d+(\.\d+)? sha256 [0-9a-f]{64}", name)
    assert segmenter("jieba").dictionary == name
    assert segmenter_with("compiled", [("断桥", 3)], "sha256 1234").dictionary == f"{name} and sha256 1234"


@pytest.mark.parametrize("name", first_of("compiled", "jieba"))
def test_a_segmenter_loads_in_silence_and_leaves_no_file(name: str, tmp_path: Path) -> None:
    """In a process with warnings as errors, sources compiled anew, and a temporary folder of its own."""
    program = (
        "import sys; from streamer.text.words import words; "
        f"assert words(['北京大学'], {name!r}, 2) == [['北京大学']]; "
        f"assert ('jieba' in sys.modules) == {name == 'jieba'}"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, cwd=ROOT, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(temporary.iterdir()) == []
