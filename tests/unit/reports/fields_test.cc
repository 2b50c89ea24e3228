#include "reports/json/detail/fields.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>

namespace plumbline::reports {

struct Wheel {
  double radius_m = 0.3;
  std::optional<double> pressure_pa;
};
void fields(auto& to, const Wheel& of) {
  to("radius_m", "metres from hub to ground", of.radius_m);
  to("pressure_pa", "pascal; null: a solid one", of.pressure_pa);
}

struct Cart {
  std::vector<Wheel> wheels;
  std::optional<std::string> owner;
  std::uint64_t trips = 0;
  std::int64_t balance = 0;
  bool covered = false;
};
void fields(auto& to, const Cart& of) {
  to("wheels", "from front to rear", of.wheels);
  to("load", "what it carries", Word{"hay", {"hay", "coal"}});
  to("driver", "who pulls it",
     Maybe(of.owner, [](auto& driver_to, const std::string& name) { driver_to("name", "in full", name); }));
  to("trips", "trips", of.trips);
  to("balance", "USD", of.balance);
  to.only_where(of.covered, "cover", "what covers it", std::string("canvas"));
}
template <>
inline constexpr std::string_view definition_name<Cart> = "cart";

namespace {

using Json = nlohmann::ordered_json;

TEST(Fields, WriteKeysInTheirOrderWithNullForWhatIsNotKnown) {
  Cart cart;
  cart.wheels = {{}, {0.4, 2e5}};
  EXPECT_EQ(written<Json>(cart).dump(),
            R"({"wheels":[{"radius_m":0.3,"pressure_pa":null},{"radius_m":0.4,"pressure_pa":200000.0}],)"
            R"("load":"hay","driver":null,"trips":0,"balance":0})");
  cart.owner = "Ada";
  cart.covered = true;
  EXPECT_EQ(written<Json>(cart)["driver"].dump(), R"({"name":"Ada"})");
  EXPECT_EQ(written<Json>(cart)["cover"], "canvas");
}

TEST(Fields, AreASchemaThatRequiresEveryKeyThatIsNeverLeftOut) {
  const Json schema = Schema<Json>::in_full(Cart());
  EXPECT_EQ(schema["required"].dump(), R"(["wheels","load","driver","trips","balance"])");
  EXPECT_EQ(schema["additionalProperties"], false);
  const Json& of = schema["properties"];
  EXPECT_EQ(of["wheels"]["items"]["properties"]["pressure_pa"].dump(),
            R"({"description":"pascal; null: a solid one","type":["number","null"]})");
  EXPECT_EQ(of["load"].dump(), R"({"description":"what it carries","enum":["hay","coal"]})");
  EXPECT_EQ(of["driver"]["type"].dump(), R"(["object","null"])");
  EXPECT_EQ(of["driver"]["properties"]["name"]["type"], "string");
  EXPECT_EQ(of["trips"].dump(), R"({"description":"trips","type":"integer","minimum":0})");
  EXPECT_EQ(of["balance"].dump(), R"({"description":"USD","type":"integer"})");
  EXPECT_TRUE(of.contains("cover"));
}

TEST(Fields, OfADefinedTypeAreAReference) {
  EXPECT_EQ(Schema<Json>::of(std::optional<Cart>()).dump(),
            R"({"anyOf":[{"$ref":"defs.schema.json#/$defs/cart"},{"type":"null"}]})");
}

}  // namespace
}  // namespace plumbline::reports
