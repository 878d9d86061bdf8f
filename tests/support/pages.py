"""One article, and two pages that hold it."""

PARAGRAPHS = (
    "The lights of the bridge over the river are on tonight, for the first time since the storm of last winter.",
    "Engineers of the town had worked on them for eleven weeks, and nobody in the old town knows what they cost.",
    "大桥的灯光今晚重新亮起，这是去年冬天那场风暴以来的第一次，居民们站在岸边看了很久，孩子们数着倒影里的灯。",
    "工程师们修了十一个星期，镇上的人说，谁也不知道一共花了多少钱，镇长说账目会在春天公布，请大家耐心等待。",
)
ARTICLE = "".join(f"<p>{paragraph}</p>" for paragraph in PARAGRAPHS)
BLOCKS = (
    "<html><head><title>t</title></head><body><div class='menu'><ul><li><a href='/'>Home</a><li><a href='/w'>Weather</a>"
    "<li><a href='/s'>Sports of the week</a></ul></div><div class='content'>"
    f"{ARTICLE}</div><div class='footer'>All rights reserved by the Evening Post of the valley</div></body></html>"
)
ELEMENTS = (
    "<!doctype html><html><body><header><nav><a href='/a'>首页</a><a href='/b'>新闻</a><a href='/c'>天气预报</a></nav></header>"
    f"<main><article>{ARTICLE}</article></main><aside><h4>大家都在看</h4><a href='/x'>十大旅游景点</a></aside>"
    "<footer>版权所有 苇湾镇融媒体中心</footer><script>var x = 1</script></body></html>"
)
