"""Texts to count: source code, prose, JSON logs, and prose in Chinese, Japanese and Korean.

Code and English prose come from the running Python; the rest was written for the tests.
"""

from __future__ import annotations

import json
import random
import sysconfig
from pathlib import Path

CHINESE = (
    "周五下午部署之后，订单服务的内存占用一直在缓慢上升。我们先怀疑是缓存没有设置上限，"
    "于是把最大条目数调低到一万，但曲线没有任何变化。后来在堆快照里看到大量未关闭的数据库游标，"
    "才发现重试逻辑在超时的时候会丢掉旧的连接。",
    "用户希望导出的报表能够按照部门分组，并且在每一组的末尾显示合计金额。"
    "如果某个部门当月没有任何支出，就不要出现在结果里。文件格式先支持 CSV，以后再考虑 Excel。",
    "春天的早晨，老人推开窗户，院子里的杏花已经落了一地。他想起很多年以前，"
    "母亲也是这样站在窗前，一边梳头一边哼着听不清词的歌。邻居家的狗叫了两声，随后一切又安静下"
    "来。",
    "决定：配置文件统一放在项目根目录，不再从环境变量读取密码。原因是上个月的事故中，"
    "没有人知道线上到底用的是哪一份配置。迁移脚本由小王负责，下周三之前完成，完成后通知全组。",
    "垃圾回收分为三步：首先从根对象出发标记所有可达的片段，其次按照分数排序剩余的片段，"
    "最后把分数最高的移入暂存区。被固定的片段永远不会被移除，即使上下文窗口已经超出预算。",
)

JAPANESE = (
    "昨日のデプロイ以降、検索画面の応答が目に見えて遅くなっています。ログを確認したところ、"
    "同じクエリが一つのリクエストの中で何十回も実行されていました。おそらく一覧の各行で関連デ"
    "ータを"
    "個別に取得しているのが原因です。まとめて読み込むように直してから、もう一度計測してみます。",
    "会議で決まったこと：古い形式の設定ファイルは来年の三月まで読み込めるようにしておく。"
    "ただし、読み込んだときには警告を表示し、新しい形式への変換方法を案内する。",
    "駅前の小さな喫茶店は、朝の七時から開いている。窓際の席に座ると、坂道を下りてくる学生たち"
    "の姿がよく見えた。"
    "店主は無口な人で、注文を聞くとき以外はほとんど話さない。それでも毎朝、同じ客が同じ席に座"
    "るのだった。",
    "テストが失敗したのは、時刻の比較にローカルタイムを使っていたためです。"
    "すべての時刻を協定世界時で保存し、表示するときだけ利用者の時間帯に変換するように変更しま"
    "した。",
    "要約を作るときは、元の文章より短くなっているかどうかを必ず確かめてください。"
    "長くなってしまった場合は置き換えずに、元の文章をそのまま残します。",
)

KOREAN = (
    "어제 배포한 뒤로 결제 서버의 응답 시간이 두 배 가까이 늘어났습니다. 로그를 살펴보니 외부"
    " 인증 서버에 대한 "
    "요청이 매번 새 연결을 만들고 있었습니다. 연결을 재사용하도록 고친 다음 다시 측정해 보겠습"
    "니다.",
    "회의에서 정한 내용은 다음과 같습니다. 사용자가 직접 고정한 메시지는 어떤 경우에도 지우지"
    " 않는다. "
    "지워진 내용은 한 달 동안 보관하고, 그 안에는 언제든지 되돌릴 수 있어야 한다.",
    "할머니는 저녁마다 마당에 나와 별을 세었다. 여름밤의 바람은 논을 건너와 처마 끝의 풍경을 "
    "가볍게 흔들었고, "
    "멀리서 개구리 우는 소리가 들렸다. 나는 그 옆에 앉아 수박을 먹으며 같은 이야기를 몇 번이고"
    " 들었다.",
    "설정 파일을 읽지 못하면 프로그램은 기본값으로 시작하지 말고, 어떤 파일의 몇 번째 줄이 잘"
    "못되었는지 알려 준 뒤 "
    "종료해야 합니다. 그래야 운영 중에 잘못된 값이 조용히 쓰이는 일을 막을 수 있습니다.",
)


def source_code() -> list[str]:
    """Return every seventh module of the standard library, up to 60 kB each."""
    library = Path(sysconfig.get_path("stdlib"))
    modules = sorted(library.glob("*.py"))[::7]
    return [path.read_text("utf-8", errors="replace")[:60_000] for path in modules]


def english_prose() -> list[str]:
    """Return the topics of the language reference."""
    from pydoc_data.topics import topics

    return [text for _, text in sorted(topics.items()) if len(text) > 500]


def json_logs(seed: int = 7, files: int = 12, lines: int = 60) -> list[str]:
    """Make structured logs as a web service writes them: ids, times, paths, numbers."""
    rng = random.Random(seed)
    words = ("order", "cart", "user", "invoice", "session", "search", "index", "cache", "token")
    levels = ("debug", "info", "warning", "error")

    def line(number: int) -> str:
        record = {
            "ts": f"2026-03-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:{number % 60:02}:"
            f"{rng.randint(0, 59):02}.{rng.randint(0, 999_999):06}Z",
            "level": rng.choice(levels),
            "trace_id": f"{rng.getrandbits(128):032x}",
            "logger": f"app.{rng.choice(words)}.{rng.choice(words)}",
            "msg": f"{rng.choice(words)} {rng.choice(words)} finished with {rng.randint(0, 99)}",
            "path": f"/api/v2/{rng.choice(words)}s/{rng.randint(1, 10**6)}",
            "status": rng.choice((200, 201, 204, 404, 500)),
            "duration_ms": round(rng.expovariate(1 / 40), 3),
            "tags": rng.sample(words, 2),
            "retry": rng.random() < 0.1,
        }
        return json.dumps(record, separators=rng.choice(((",", ":"), (", ", ": "))))

    return ["\n".join(line(number) for number in range(lines)) for _ in range(files)]
