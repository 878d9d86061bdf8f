"""Words: what the two segmenters agree on, and the array road against a plain one."""

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer import features, vocabulary
from streamer.features import Segmenter, Splitter, segmenter, split, words
from streamer.text import decode, fold, normalise

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

ANY_LETTERS = st.text(
    st.sampled_from(
        "长江大桥的一是在々〇\u3400\u9fd6あいカーไกา\u0e31\u0e34ငက\u103dab'’ʼé1२हि\u0301\u0327가다.，。 \n-_😀"
    )
    | st.characters(),
    max_size=20,
)
IDEOGRAPH = r"[[\p{Script=Han}\p{Ideographic}\p{Script=Yi}]&&[\p{L}\p{N}]]"
UNSPACED = (
    r"(?=\p{L})(?![\u4e00-\u9fd5]|" + IDEOGRAPH + r"|[\u02bc])"
    r"[\p{scx=Hiragana}\p{scx=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tai_Le}"
    r"\p{Script=New_Tai_Lue}\p{Script=Tai_Tham}\p{Script=Tai_Viet}\p{Script=Ahom}\p{Script=Javanese}\p{Script=Balinese}]"
)
WORD = r"(?![\u4e00-\u9fd5\u02bc]|" + IDEOGRAPH + "|" + UNSPACED + r")[\p{L}\p{N}]\p{M}*"
TOKEN = regex.compile(
    rf"(?P<han>[\u4e00-\u9fd5]+)|(?P<one>{IDEOGRAPH})|(?P<many>(?:{UNSPACED}\p{{M}}*)+)"
    rf"|(?P<word>(?:{WORD})+(?:['\u2019\u02bc](?:{WORD})+)*)",
    regex.VERSION1,
)
LETTER = regex.compile(rf"{UNSPACED}\p{{M}}*", regex.VERSION1)


def plain_words(text: str, size: int) -> list[str]:
    """The rules of the module, run by run, without arrays."""
    found: list[str] = []
    for match in TOKEN.finditer(normalise(text)):
        run = match.group()
        if match["han"]:
            found += segmenter("rjieba").cut(run)
        elif match["many"]:
            letters = LETTER.findall(run)
            found += ["".join(letters[at : at + size]) for at in range(max(1, len(letters) - size + 1))]
        else:
            found.append(regex.sub("[\u2019\u02bc]", "'", run))
    return found


def varied_sentences() -> list[str]:
    return SENTENCES + [f"{when}，{who}{what}。" for who, when, what in product(WHO, WHEN, WHAT)]


def test_both_segmenters_cut_the_same_words() -> None:
    sentences = varied_sentences()
    assert len(sentences) > 300
    by_rust, by_python = (words(sentences, name, 2) for name in ("rjieba", "jieba"))
    assert by_rust == by_python
    assert sum(map(len, by_rust)) > 3_000
    # Both dictionary words and words that only the hidden Markov model finds are among them.
    assert {"长江大桥", "图书馆", "杭研"} <= {word for found in by_rust for word in found}


@settings(max_examples=150)
@given(
    st.text(
        st.characters(min_codepoint=0x4E00, max_codepoint=0x9FD5) | st.sampled_from("的一是不了在人有我他"), max_size=40
    )
)
def test_both_segmenters_cut_runs_of_any_characters_alike(run: str) -> None:
    assert words([run], "rjieba", 2) == words([run], "jieba", 2)


@settings(max_examples=300)
@given(st.lists(ANY_LETTERS, max_size=4), st.integers(1, 4))
def test_a_batch_gives_the_words_that_each_text_has_by_the_rules(texts: list[str], size: int) -> None:
    assert words(texts, "rjieba", size) == [plain_words(text, size) for text in texts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("，。！😀 +-", []),
        ("我来到北京清华大学", ["我", "来到", "北京", "清华大学"]),
        ("他来到了网易杭研大厦", ["他", "来到", "了", "网易", "杭研", "大厦"]),
        ("二〇二四年", ["二", "〇", "二", "四年"]),
        ("人々 \U00020000\u9fd6", ["人", "々", "\U00020000", "\u9fd6"]),
        ("Don’t stop 'rock'n'roll'!", ["don't", "stop", "rock'n'roll"]),
        ("COVID-19：3.14", ["covid", "19", "3", "14"]),
        ("API를 사용", ["api를", "사용"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("العربية لغة", ["العربية", "لغة"]),
        ("東京タワーへ行く", ["東京", "タワ", "ワー", "ーへ", "行", "く"]),
        ("ภาษาไทย๑", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย", "๑"]),
        ("กี่", ["กี่"]),
    ],
)
def test_the_words_of_examples(text: str, expected: list[str]) -> None:
    assert words([text], "rjieba", 2) == [expected]


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1, ["あ", "い", "う"]), (2, ["あい", "いう"]), (3, ["あいう"]), (4, ["あいう"])],
)
def test_a_run_shorter_than_the_shingle_is_one_word(size: int, expected: list[str]) -> None:
    assert words(["あいう"], "rjieba", size) == [expected]


def test_words_do_not_reach_over_the_border_of_a_text() -> None:
    texts = ["あ", "いう", "", "か\u3099", "ab", "cd", "北", "京", "々", "々"]
    assert words(texts, "rjieba", 2) == [["あ"], ["いう"], [], ["が"], ["ab"], ["cd"], ["北"], ["京"], ["々"], ["々"]]


def test_all_han_runs_of_a_batch_go_to_the_segmenter_at_once() -> None:
    calls: list[str] = []

    def cut(text: str) -> list[str]:
        calls.append(text)
        return segmenter("rjieba").cut(text)

    found = split(fold(["北京，上海", "abc", "广州"]), Segmenter(cut, "counted"), 2)
    assert calls == ["\n北京\n上海\n广州"]
    assert found.words == ["北京", "上海", "abc", "广州"]
    assert found.bounds.tolist() == [0, 2, 3, 4]


@pytest.mark.parametrize(
    "cut",
    [
        lambda text: [text[:-1]],
        lambda text: ["\n", text[1:], "上"],
        lambda text: [text],
    ],
    ids=["loses", "gains", "swallows the line feed"],
)
def test_a_segmenter_that_loses_or_gains_characters_is_not_believed(cut: Callable[[str], list[str]]) -> None:
    with pytest.raises(AssertionError, match="lost or gained"):
        split(fold(["北京上海"]), Segmenter(cut, "wrong"), 2)


def test_a_run_that_is_remembered_is_not_cut_again() -> None:
    calls: list[str] = []

    def cut(text: str) -> list[str]:
        calls.append(text)
        return segmenter("rjieba").cut(text)

    splitter = Splitter(Segmenter(cut, "counted"), 2)
    first = splitter.split(fold(["北京大学，and 上海", "北京大学"]))
    assert splitter.split(fold(["上海 北京 北京大学"])).words == ["上海", "北京", "北京大学"]
    assert calls == ["\n北京大学\n上海", "\n北京"]
    assert first.words == ["北京大学", "and", "上海", "北京大学"]


@settings(max_examples=100)
@given(st.lists(st.lists(ANY_LETTERS, max_size=3), max_size=6), st.integers(1, 3), st.integers(0, 6))
def test_what_is_remembered_or_forgotten_changes_no_word(batches: list[list[str]], size: int, remembered: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "_REMEMBERED", remembered)
        splitter = Splitter(segmenter("rjieba"), size)
        for texts in batches:
            found, alone = splitter.split(fold(texts)), split(fold(texts), segmenter("rjieba"), size)
            assert found.words == alone.words
            assert found.bounds.tolist() == alone.bounds.tolist()
            assert found.starts.tolist() == alone.starts.tolist()


@pytest.mark.parametrize(("strings_max", "characters_max"), [(3, 1 << 21), (1 << 17, 40)])
def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch, strings_max: int, characters_max: int) -> None:
    monkeypatch.setattr(vocabulary, "_REMEMBERED", strings_max)
    monkeypatch.setattr(vocabulary, "_REMEMBERED_CHARACTERS", characters_max)
    splitter = Splitter(segmenter("rjieba"), 2)
    sizes = []
    for text in ("a b a", "cd 北京", "e", "x" * 1_000 + " b", "b"):
        strings = splitter.split(fold([text])).vocabulary.strings
        sizes.append(sum(map(len, strings)))
    # The line feed is always there; what was remembered goes before the batch that follows the bound's crossing.
    assert sizes == ([3, 7, 2, 1_003, 2] if strings_max == 3 else [3, 7, 8, 1_008, 2])


@settings(max_examples=200)
@given(st.lists(ANY_LETTERS, max_size=4), st.integers(1, 4))
def test_every_word_stands_where_it_is_said_to_begin(texts: list[str], size: int) -> None:
    characters = fold(texts)
    found = split(characters, segmenter("rjieba"), size)
    assert found.lengths.tolist() == list(map(len, found.words))
    numbers = np.searchsorted(characters.bounds, found.starts, side="right") - 1
    assert numbers.tolist() == np.repeat(np.arange(len(texts)), np.diff(found.bounds)).tolist()
    for word, start in zip(found.words, found.starts.tolist(), strict=True):
        there = decode(characters.codepoints[start : start + len(word)])
        assert regex.sub("[\u2019\u02bc]", "'", there) == word


def test_bounds_count_words_for_empty_batches_and_texts() -> None:
    assert split(fold([]), segmenter("rjieba"), 2).bounds.tolist() == [0]
    found = split(fold(["", "，", ""]), segmenter("rjieba"), 2)
    assert found.bounds.tolist() == [0, 0, 0, 0]
    assert found.words == []
    assert np.issubdtype(found.bounds.dtype, np.int64)


def test_the_name_of_a_dictionary_tells_its_release() -> None:
    assert regex.fullmatch(r"rjieba \d+\.\d+\.\d+", segmenter("rjieba").dictionary)
    assert regex.fullmatch(r"jieba \d+\.\d+(\.\d+)? sha256 [0-9a-f]{64}", segmenter("jieba").dictionary)


@pytest.mark.parametrize(("used", "unused"), [("rjieba", "jieba"), ("jieba", "rjieba")])
def test_a_segmenter_loads_alone_in_silence_and_leaves_no_file(used: str, unused: str, tmp_path: Path) -> None:
    """In a process of its own that makes every warning an error, compiles the sources anew, and has its own /tmp."""
    program = (
        "import sys, logging; from streamer.features import words; "
        f"assert 'jieba' not in sys.modules and 'rjieba' not in sys.modules; words(['北京大学'], {used!r}, 2); "
        f"assert {used!r} in sys.modules and {unused!r} not in sys.modules"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
    root = Path(features.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, cwd=root, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(temporary.iterdir()) == []
