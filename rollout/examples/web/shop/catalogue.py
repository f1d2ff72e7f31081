"""What the shop sells: fixed goods, prices in cents, stock of each variant, reviews, vouchers."""

from __future__ import annotations

from dataclasses import dataclass, field

CATEGORIES = {
    "teapots": "Teapots & Kettles",
    "mugs": "Mugs & Cups",
    "tea": "Tea",
    "coffee": "Coffee",
    "cookware": "Cookware",
    "linen": "Table Linen",
}
PAGE_SIZE = 9
FREE_SHIPPING = 6000
STANDARD_SHIPPING = 490
EXPRESS_SHIPPING = 1290


@dataclass(frozen=True)
class Review:
    author: str
    stars: int
    date: str
    text: str


@dataclass(frozen=True)
class Product:
    sku: str
    name: str
    category: str
    brand: str
    price: int
    rating: float
    ratings: int
    added: str
    summary: str
    facts: dict[str, str]
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sold_out: tuple[str, ...] = ()
    """Variants without stock; `*` is all of them."""
    was: int | None = None
    reviews: tuple[Review, ...] = ()

    def is_in_stock(self, variant: str) -> bool:
        return "*" not in self.sold_out and variant not in self.sold_out

    @property
    def is_sold_out(self) -> bool:
        return "*" in self.sold_out


@dataclass(frozen=True)
class Voucher:
    code: str
    text: str
    percent: int = 0
    free_shipping: bool = False
    minimum: int = 0


VOUCHERS = {
    voucher.code: voucher
    for voucher in (
        Voucher("WELCOME10", "10% off your order", percent=10),
        Voucher("SPRING15", "15% off orders of $80 or more", percent=15, minimum=8000),
        Voucher("SHIPFREE", "Free standard delivery", free_shipping=True),
    )
}
EXPIRED = frozenset({"WINTER20", "NEWYEAR"})

_COLOURS = ("Sage", "Cream", "Charcoal")

PRODUCTS: dict[str, Product] = {
    product.sku: product
    for product in (
        # ---- teapots and kettles
        Product(
            "TP-101", "Fernleaf Stoneware Teapot", "teapots", "Fern & Kettle", 4200, 4.7, 128, "2024-09-02",
            "A round-bellied teapot for four cups, glazed by hand, with a strainer that lifts out.",
            {"Capacity": "1.1 l", "Material": "Stoneware", "Weight": "980 g", "Dishwasher": "Yes", "Made in": "Portugal"},
            {"Colour": _COLOURS}, ("Charcoal",),
            reviews=(
                Review("Hannah P.", 5, "2025-02-11", "Pours without a drip, which I had stopped hoping for."),
                Review("Oskar L.", 4, "2025-01-20", "Lovely glaze. The lid could sit a little tighter."),
                Review("Mei T.", 5, "2024-12-03", "Keeps tea warm for nearly an hour under a cosy."),
            ),
        ),
        Product(
            "TP-102", "Kobe Cast Iron Teapot", "teapots", "Tetsuya", 6850, 4.5, 74, "2024-06-14",
            "Heavy, slow to cool, enamelled inside. For people who forget their tea.",
            {"Capacity": "0.8 l", "Material": "Cast iron", "Weight": "1,450 g", "Dishwasher": "No", "Made in": "Japan"},
            {"Colour": ("Black", "Moss")},
            reviews=(
                Review("Pavel D.", 5, "2025-02-27", "A thing for life. Mind the hot handle."),
                Review("Ines M.", 3, "2025-01-08", "Beautiful but too heavy for my mother."),
            ),
        ),
        Product(
            "TP-103", "Glasshouse Teapot", "teapots", "Lindmark", 2990, 4.1, 52, "2025-01-15",
            "Borosilicate glass, so that you can watch the leaves open.",
            {"Capacity": "0.6 l", "Material": "Borosilicate glass", "Weight": "420 g", "Dishwasher": "Yes", "Made in": "Germany"},
        ),
        Product(
            "KT-110", "Gooseneck Pour-Over Kettle", "teapots", "Brewline", 5900, 4.8, 211, "2024-11-05",
            "A slim spout for a slow, exact pour. For gas, electric and induction hobs.",
            {"Capacity": "1.0 l", "Material": "Stainless steel", "Weight": "610 g", "Dishwasher": "No", "Made in": "Taiwan"},
            {"Finish": ("Brushed steel", "Matt black", "Copper")}, ("Copper",),
            reviews=(
                Review("Jonas W.", 5, "2025-03-01", "The thermometer in the lid is spot on."),
                Review("Rita S.", 5, "2025-02-02", "Best kettle I have owned. Induction works well."),
                Review("Bo K.", 2, "2024-12-19", "The knob came loose after three weeks; replaced without a question."),
            ),
        ),
        Product(
            "KT-111", "Whistling Hob Kettle", "teapots", "Lindmark", 3450, 3.9, 96, "2023-10-20",
            "The one your grandmother had, with a whistle that carries to the garden.",
            {"Capacity": "2.2 l", "Material": "Enamelled steel", "Weight": "1,120 g", "Dishwasher": "No", "Made in": "Poland"},
            {"Colour": ("Red", "Cream")}, was=3990,
        ),
        Product(
            "KT-112", "Variable Electric Kettle", "teapots", "Brewline", 8900, 4.4, 187, "2024-10-01",
            "Holds any temperature between 40 and 100 degrees for an hour.",
            {"Capacity": "1.5 l", "Material": "Stainless steel", "Power": "2,200 W", "Cord": "75 cm", "Guarantee": "3 years"},
            reviews=(
                Review("Aylin C.", 5, "2025-01-30", "70 degrees for green tea, every time."),
                Review("Tom B.", 4, "2025-01-12", "Good, though the cord is short."),
            ),
        ),
        Product(
            "TP-104", "Teapot Cosy, Quilted", "teapots", "Fern & Kettle", 1650, 4.3, 33, "2024-11-28",
            "Cotton outside, wool inside. Fits pots up to 1.3 litres.",
            {"Material": "Cotton, wool", "Care": "Hand wash", "Width": "28 cm", "Made in": "Ireland"},
        ),
        # ---- mugs and cups
        Product(
            "MG-201", "Harbour Mug", "mugs", "Fern & Kettle", 1400, 4.6, 302, "2024-03-18",
            "A straight-sided mug with a thumb rest. The one we drink from ourselves.",
            {"Capacity": "350 ml", "Material": "Stoneware", "Weight": "340 g", "Microwave": "Yes", "Dishwasher": "Yes"},
            {"Colour": ("Navy", "Sand", "Rust", "White")}, ("Rust",),
            reviews=(
                Review("Lena F.", 5, "2025-02-22", "Bought two, came back for four more."),
                Review("Dmitri A.", 4, "2025-02-05", "A bit heavy when full, otherwise perfect."),
                Review("Grace O.", 5, "2025-01-17", "The sand glaze is prettier than in the picture."),
                Review("Sam R.", 1, "2024-12-29", "Arrived with a chip. A new one came within two days."),
            ),
        ),
        Product(
            "MG-202", "Double-Wall Glass Cup, Set of 2", "mugs", "Lindmark", 2400, 4.2, 88, "2024-08-09",
            "Cool outside, hot inside. Blown by mouth, so no two are alike.",
            {"Capacity": "250 ml", "Material": "Borosilicate glass", "Pieces": "2", "Microwave": "Yes", "Dishwasher": "Yes"},
        ),
        Product(
            "MG-203", "Espresso Cup with Saucer", "mugs", "Brewline", 1150, 4.5, 140, "2024-05-27",
            "Thick walls, a narrow foot and room for a double.",
            {"Capacity": "80 ml", "Material": "Porcelain", "Pieces": "2", "Microwave": "Yes", "Dishwasher": "Yes"},
            {"Colour": ("White", "Black", "Forest")},
        ),
        Product(
            "MG-204", "Travel Mug", "mugs", "Brewline", 2850, 4.7, 415, "2024-10-22",
            "Keeps coffee hot for six hours and closes with one hand.",
            {"Capacity": "470 ml", "Material": "Stainless steel", "Weight": "290 g", "Keeps hot": "6 hours", "Dishwasher": "Lid only"},
            {"Colour": ("Graphite", "Mint", "Sunrise"), "Size": ("350 ml", "470 ml")}, ("Mint, 470 ml",),
            reviews=(
                Review("Yuki H.", 5, "2025-03-04", "Survived a fall down the stairs of the tube."),
                Review("Carla V.", 4, "2025-02-14", "Does not leak. The lid takes some learning."),
            ),
        ),
        Product(
            "MG-205", "Enamel Camping Mug", "mugs", "Hollins", 950, 4.0, 67, "2023-07-01",
            "Light, tough, and better looking with every dent.",
            {"Capacity": "400 ml", "Material": "Enamelled steel", "Weight": "120 g", "Microwave": "No", "Dishwasher": "Yes"},
            {"Colour": ("White", "Blue", "Green")}, was=1200,
        ),
        Product(
            "MG-206", "Matcha Bowl", "mugs", "Tetsuya", 3200, 4.9, 29, "2025-02-10",
            "A chawan from Mino, thrown and glazed by hand.",
            {"Capacity": "450 ml", "Material": "Stoneware", "Weight": "390 g", "Microwave": "No", "Dishwasher": "No"},
            reviews=(Review("Noor J.", 5, "2025-03-02", "Deep enough to whisk without spilling."),),
        ),
        Product(
            "MG-207", "Latte Bowl", "mugs", "Hollins", 1250, 4.4, 58, "2024-04-04",
            "For breakfasts that begin with dipping something.",
            {"Capacity": "500 ml", "Material": "Stoneware", "Weight": "410 g", "Microwave": "Yes", "Dishwasher": "Yes"},
            {"Colour": ("Cream", "Sky")}, ("*",),
        ),
        # ---- tea
        Product(
            "TE-301", "Second Flush Darjeeling", "tea", "Margaret's Leaf", 1290, 4.6, 163, "2024-09-15",
            "Muscatel, amber, from a single garden in the Himalaya.",
            {"Origin": "Darjeeling, India", "Kind": "Black", "Steep": "3 to 4 minutes at 95 °C", "Caffeine": "Medium", "Organic": "Yes"},
            {"Weight": ("100 g", "250 g")},
            reviews=(
                Review("Edith N.", 5, "2025-02-18", "Tastes of ripe grapes, as it should."),
                Review("Karl M.", 4, "2025-01-25", "Very good second infusion."),
            ),
        ),
        Product(
            "TE-302", "Sencha Asamushi", "tea", "Tetsuya", 1650, 4.8, 97, "2024-07-30",
            "A lightly steamed sencha with a clear, grassy cup.",
            {"Origin": "Shizuoka, Japan", "Kind": "Green", "Steep": "90 seconds at 70 °C", "Caffeine": "Medium", "Organic": "No"},
        ),
        Product(
            "TE-303", "Smoky Lapsang Souchong", "tea", "Margaret's Leaf", 1120, 4.0, 61, "2024-02-11",
            "Dried over pine fires. You like it or you leave the room.",
            {"Origin": "Fujian, China", "Kind": "Black", "Steep": "4 minutes at 100 °C", "Caffeine": "High", "Organic": "No"},
        ),
        Product(
            "TE-304", "Garden Mint", "tea", "Margaret's Leaf", 780, 4.5, 204, "2024-06-01",
            "Whole leaves of peppermint and nothing else.",
            {"Origin": "Oregon, USA", "Kind": "Herbal", "Steep": "6 minutes at 100 °C", "Caffeine": "None", "Organic": "Yes"},
            reviews=(Review("Amina B.", 5, "2025-02-01", "Fresh, strong, no dust in the bag."),),
        ),
        Product(
            "TE-305", "Rooibos Orange", "tea", "Margaret's Leaf", 850, 4.2, 119, "2024-05-12",
            "Red bush with orange peel and a little cinnamon.",
            {"Origin": "Cederberg, South Africa", "Kind": "Herbal", "Steep": "7 minutes at 100 °C", "Caffeine": "None", "Organic": "Yes"},
        ),
        Product(
            "TE-306", "Milk Oolong", "tea", "Tetsuya", 1890, 4.7, 45, "2025-01-28",
            "Creamy, floral, rolled into tight pearls.",
            {"Origin": "Alishan, Taiwan", "Kind": "Oolong", "Steep": "3 minutes at 85 °C", "Caffeine": "Medium", "Organic": "No"},
        ),
        Product(
            "TE-307", "Ceremonial Matcha", "tea", "Tetsuya", 2600, 4.6, 83, "2024-12-12",
            "First harvest, stone ground, thirty grams in a tin.",
            {"Origin": "Uji, Japan", "Kind": "Green", "Steep": "Whisk at 80 °C", "Caffeine": "High", "Organic": "Yes"},
        ),
        Product(
            "TE-308", "Earl Grey Supreme", "tea", "Margaret's Leaf", 990, 4.3, 256, "2023-11-11",
            "Ceylon with oil of bergamot and blue cornflowers.",
            {"Origin": "Uva, Sri Lanka", "Kind": "Black", "Steep": "4 minutes at 95 °C", "Caffeine": "High", "Organic": "No"},
            {"Weight": ("100 g", "250 g")}, was=1190,
        ),
        # ---- coffee
        Product(
            "CO-401", "Morning Blend", "coffee", "Brewline", 1350, 4.4, 388, "2024-01-09",
            "Chocolate, hazelnut, and nothing that needs explaining before nine.",
            {"Origin": "Brazil, Guatemala", "Roast": "Medium", "Weight": "500 g", "Arabica": "100%"},
            {"Grind": ("Whole bean", "Filter", "Espresso")},
            reviews=(
                Review("Priya K.", 5, "2025-03-06", "Our office drinks nothing else."),
                Review("Luc T.", 3, "2025-02-09", "Solid, but the filter grind is a little fine."),
            ),
        ),
        Product(
            "CO-402", "Yirgacheffe Washed", "coffee", "Brewline", 1780, 4.8, 142, "2024-12-02",
            "Jasmine, lemon, black tea. A light roast for filter.",
            {"Origin": "Ethiopia", "Roast": "Light", "Weight": "350 g", "Arabica": "100%"},
            {"Grind": ("Whole bean", "Filter")},
        ),
        Product(
            "CO-403", "Night Shift Decaf", "coffee", "Brewline", 1490, 4.1, 77, "2024-08-21",
            "Decaffeinated with water, roasted for the espresso pot.",
            {"Origin": "Colombia", "Roast": "Medium", "Weight": "350 g", "Arabica": "100%"},
            {"Grind": ("Whole bean", "Espresso")},
        ),
        Product(
            "CO-404", "Porto Espresso", "coffee", "Casa Lume", 1550, 4.5, 168, "2024-03-03",
            "Dark, syrupy, with a proper crema.",
            {"Origin": "Brazil, India", "Roast": "Dark", "Weight": "500 g", "Arabica": "70%"},
            {"Grind": ("Whole bean", "Espresso")},
        ),
        Product(
            "CO-405", "Hand Grinder", "coffee", "Brewline", 6400, 4.6, 93, "2024-11-19",
            "Steel burrs, forty clicks, and your own two hands.",
            {"Material": "Steel, walnut", "Weight": "540 g", "Capacity": "30 g", "Guarantee": "5 years"},
        ),
        Product(
            "CO-406", "Pour-Over Dripper", "coffee", "Lindmark", 2200, 4.7, 120, "2024-04-25",
            "A ceramic cone with spiral ribs for one or two cups.",
            {"Material": "Porcelain", "Cups": "1 to 2", "Dishwasher": "Yes", "Made in": "Germany"},
            {"Colour": ("White", "Black")},
        ),
        Product(
            "CO-407", "Paper Filters, 100 Pieces", "coffee", "Brewline", 650, 4.4, 231, "2023-05-16",
            "Unbleached, for cones of size 02.",
            {"Pieces": "100", "Material": "Unbleached paper", "Size": "02"},
        ),
        # ---- cookware
        Product(
            "CW-501", "Cast Iron Skillet", "cookware", "Hollins", 3900, 4.8, 510, "2023-09-09",
            "Seasoned, honest, and heavier than it looks.",
            {"Diameter": "26 cm", "Material": "Cast iron", "Weight": "2.4 kg", "Induction": "Yes", "Oven": "Up to 260 °C"},
            {"Size": ("20 cm", "26 cm", "30 cm")}, ("30 cm",),
            reviews=(
                Review("Brett I.", 5, "2025-02-25", "Eggs slide after two weeks of bacon."),
                Review("Olga Z.", 5, "2025-01-14", "Better than the one I inherited."),
            ),
        ),
        Product(
            "CW-502", "Enamelled Casserole", "cookware", "Casa Lume", 12900, 4.7, 186, "2024-10-10",
            "For stews, bread and Sundays.",
            {"Capacity": "4.7 l", "Material": "Enamelled cast iron", "Weight": "5.1 kg", "Induction": "Yes", "Oven": "Up to 250 °C"},
            {"Colour": ("Ember", "Ocean", "Ash")}, was=14900,
        ),
        Product(
            "CW-503", "Copper Saucepan", "cookware", "Casa Lume", 9800, 4.3, 41, "2024-02-20",
            "Two millimetres of copper, lined with steel.",
            {"Capacity": "1.4 l", "Material": "Copper, stainless steel", "Weight": "1.3 kg", "Induction": "No", "Oven": "Up to 230 °C"},
        ),
        Product(
            "CW-504", "Olive Wood Spoon Set", "cookware", "Casa Lume", 2100, 4.5, 99, "2024-05-05",
            "Three spoons and a spatula from one tree.",
            {"Pieces": "4", "Material": "Olive wood", "Length": "32 cm", "Dishwasher": "No"},
        ),
        Product(
            "CW-505", "Kitchen Scale", "cookware", "Brewline", 3600, 4.2, 134, "2024-09-23",
            "To a tenth of a gram, with a timer for coffee.",
            {"Range": "2 kg", "Resolution": "0.1 g", "Power": "USB-C", "Guarantee": "2 years"},
        ),
        Product(
            "CW-506", "Bread Proofing Basket", "cookware", "Hollins", 1900, 4.4, 72, "2025-02-20",
            "Rattan, with a linen liner. For a kilo of dough.",
            {"Diameter": "24 cm", "Material": "Rattan", "Holds": "1 kg of dough"},
        ),
        Product(
            "CW-507", "Mortar and Pestle", "cookware", "Lindmark", 4500, 4.6, 65, "2023-12-01",
            "Granite, polished outside, rough where it matters.",
            {"Diameter": "15 cm", "Material": "Granite", "Weight": "3.8 kg", "Dishwasher": "No"},
        ),
        # ---- table linen
        Product(
            "LN-601", "Washed Linen Tablecloth", "linen", "Fern & Kettle", 7200, 4.5, 56, "2024-06-25",
            "Soft from the first day and never ironed.",
            {"Material": "100% linen", "Care": "40 °C", "Made in": "Lithuania"},
            {"Size": ("140 x 200 cm", "140 x 280 cm", "Round, 170 cm"), "Colour": ("Natural", "Sage")},
        ),
        Product(
            "LN-602", "Linen Napkins, Set of 4", "linen", "Fern & Kettle", 3100, 4.6, 80, "2024-06-25",
            "With a mitred hem, to go with the tablecloth.",
            {"Material": "100% linen", "Size": "45 x 45 cm", "Pieces": "4", "Made in": "Lithuania"},
            {"Colour": ("Natural", "Sage", "Rust")},
        ),
        Product(
            "LN-603", "Tea Towel, Herringbone", "linen", "Hollins", 1150, 4.3, 151, "2024-01-22",
            "Dries glasses without a trace.",
            {"Material": "Half linen", "Size": "50 x 70 cm", "Care": "60 °C", "Made in": "Ireland"},
        ),
        Product(
            "LN-604", "Quilted Oven Glove", "linen", "Hollins", 1450, 4.1, 47, "2023-08-30",
            "Long enough to save your wrists.",
            {"Material": "Cotton", "Length": "34 cm", "Care": "40 °C", "Withstands": "220 °C"},
        ),
        Product(
            "LN-605", "Apron with Pockets", "linen", "Fern & Kettle", 3800, 4.7, 109, "2025-01-05",
            "Crossed straps, two deep pockets, one loop for the towel.",
            {"Material": "Linen, cotton", "Care": "40 °C", "Made in": "Portugal"},
            {"Colour": ("Ink", "Oat", "Clay")}, ("Oat",),
        ),
    )
}  # fmt: skip
