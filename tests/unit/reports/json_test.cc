#include "reports/json/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "model/base/version.h"
#include "model/plan/plan_fields.h"
#include "reports/json/detail/fields.h"
#include "reports/json/read_json.h"
#include "tests/support/example_result.h"

namespace plumbline::reports {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::vector<std::string> keys_of(const OrderedJson& json) {
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  return keys;
}

// Keys are the contract's, in its order; further keys may only follow them.
void expect_begins_with(const OrderedJson& json, const std::vector<std::string>& contract) {
  const auto keys = keys_of(json);
  ASSERT_GE(keys.size(), contract.size());
  EXPECT_EQ(std::vector<std::string>(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(contract.size())),
            contract);
}

class ResultJson : public testing::Test {
 protected:
  OrderedJson json = OrderedJson::parse(to_json(support::example_result(), support::example_plan()));
};

TEST(ResultFit, IsTheVerdictWithWhatIsFree) {
  model::StepResult result = support::example_result();
  result.memory.fits_probability = 0.5;
  const auto fit = [&] { return OrderedJson::parse(to_json(result, support::example_plan()))["fit"]; };
  EXPECT_EQ(fit()["verdict"], "edge");
  EXPECT_EQ(fit()["probability"], 0.5);
  EXPECT_EQ(fit()["free_bytes"], 84.94e9 - 58e9);  // capacity less the highest peak
  result.memory.fits_probability = 0.01;
  EXPECT_EQ(fit()["verdict"], "no");
  result.memory.measured = true;
  EXPECT_TRUE(fit().is_null());
}

// An allocator that would like 90 GB fills 84.94 and fits; of a plan that does not fit the peak keeps its excess.
TEST(ResultMiddle, HasThePeakOfADeviceThatIsFull) {
  model::StepResult result = support::example_result();
  result.interval = support::example_interval();
  result.interval->peak_bytes = {84e9, 90e9, 95e9};
  const auto json = [&] { return OrderedJson::parse(to_json(result, support::example_plan())); };
  EXPECT_EQ(json()["middle"]["peak_bytes"], 84.94e9);
  EXPECT_EQ(json()["interval"]["peak_bytes"]["p50"], 90e9);
  result.interval->fits_probability = 0.1;
  EXPECT_EQ(json()["middle"]["peak_bytes"], 90e9);
}

TEST_F(ResultJson, HasTheContractsKeysInOrder) {
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"plumbline", "step", "interval", "middle", "power_span_s", "bound",
                                                     "cluster", "run", "memory", "provenance", "basis", "plan",
                                                     "measured", "assumed", "fit", "rollout", "rollout_reason"}));
  EXPECT_TRUE(json["rollout"].is_null());
  EXPECT_EQ(json["plumbline"]["version"], model::version);
  EXPECT_EQ(json["plumbline"]["schema"], model::schema);
  expect_begins_with(json["step"], {"time_s", "tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
                                    "model_tflops_per_gpu_causal", "mfu", "mfu_causal", "bubble_s",
                                    "exposed_communication_s", "optimizer_s", "slots_s", "chunk_s"});
  EXPECT_EQ(keys_of(json["step"]["slots_s"]), (std::vector<std::string>{"F", "B", "I", "W", "FB"}));
  EXPECT_EQ(keys_of(json["step"]["chunk_s"]), (std::vector<std::string>{"F", "B", "I", "W", "FB"}));
  expect_begins_with(json["run"], {"tokens", "steps", "days", "gpu_hours", "cost_usd", "goodput", "phases",
                                   "total_gpu_hours", "total_cost_usd"});
  EXPECT_EQ(json["run"]["price_usd_per_gpu_hour"], 2);
  EXPECT_EQ(json["run"]["ownership"], "rent");
  EXPECT_EQ(json["run"]["total_cost_usd_high"], 4 * 2.796e6);
  EXPECT_EQ(json["run"]["purchase"]["capital_usd_per_gpu_hour"], 1.8);
  EXPECT_DOUBLE_EQ(json["run"]["total_energy_mwh"], 2.796e6 * 1500 / 1e6);
  EXPECT_EQ(json["run"]["fabric"]["switches"], 96);
  expect_begins_with(json["run"]["phases"][0], {"name", "gpu_hours", "kind"});
  expect_begins_with(json["memory"], {"peak_bytes", "capacity_bytes", "fits", "stages"});
  expect_begins_with(json["provenance"][0], {"parameter", "value", "unit", "kind", "source", "share_of_step"});
}

TEST_F(ResultJson, HasEveryClassOfWorkByAKeyWithoutBlanks) {
  const auto& classes = json["step"]["breakdown_s"];
  EXPECT_EQ(classes["other_memory-bound"], 1.6);
  EXPECT_EQ(classes["router"], 0) << "nothing of it ran";
  EXPECT_TRUE(classes["point-to-point"].is_null()) << "not separated from the bubble";
  const model::StepTimes closed_form;
  const OrderedJson unknown = OrderedJson::parse(step_json(closed_form))["breakdown_s"];
  for (const auto& [name, seconds] : unknown.items()) EXPECT_TRUE(seconds.is_null()) << name;
}

TEST(StoredResult, HasTheClassesOfEarlierVersionsByTheirNames) {
  const auto stored = read_result(R"({"step": {"time_s": 1, "breakdown_s": {"casts and transposes": 0.5,
      "other_memory-bound": 0.25, "router": null, "something else": 0.25}}})",
                                  "old.json");
  ASSERT_TRUE(stored);
  std::vector<std::string> names;
  for (const auto& part : stored->result.step.breakdown) names.push_back(part.name);
  EXPECT_EQ(names, (std::vector<std::string>{"casts and transposes", "other memory-bound", "something else"}));
}

TEST_F(ResultJson, BoundHasWhatBindsAndTheLosses) {
  const OrderedJson& bound = json["bound"];
  EXPECT_EQ(keys_of(bound), (std::vector<std::string>{"time_s", "binds", "rank", "lost", "flops_at_peak_s"}));
  EXPECT_EQ(bound["binds"], "compute");
  EXPECT_EQ(bound["rank"], 3);
  ASSERT_EQ(bound["lost"].size(), 4U);
  EXPECT_EQ(bound["lost"][0].dump(), R"({"cause":"bubble","seconds":5.0,"remedy":"more micro-batches"})");
}

TEST_F(ResultJson, NotComputedIsNull) {
  EXPECT_TRUE(json["step"]["slots_s"]["I"].is_null());
  EXPECT_EQ(json["interval"]["time_s"].dump(), R"({"p10":null,"p50":null,"p90":null})");
  EXPECT_TRUE(json["interval"]["fits_probability"].is_null());
  auto result = support::example_result();
  result.run->rent = {std::nullopt, "no price.rent"};
  result.run->cost_usd.reset();
  const OrderedJson unpriced = OrderedJson::parse(to_json(result, support::example_plan()))["run"];
  EXPECT_TRUE(unpriced["cost_usd"].is_null());
  EXPECT_TRUE(unpriced["cost_usd_low"].is_null());
  EXPECT_EQ(unpriced["rent"].dump(), R"({"usd_per_gpu_hour":null,"missing":"no price.rent"})");
  result.run.reset();
  result.bound_s.reset();
  result.step.bubble_s.reset();
  result.step.mfu = std::nan("");
  const OrderedJson empty = OrderedJson::parse(to_json(result, support::example_plan()));
  EXPECT_TRUE(empty["run"].is_null());
  for (const char* key : {"time_s", "binds", "rank", "lost"}) EXPECT_TRUE(empty["bound"][key].is_null()) << key;
  EXPECT_TRUE(empty["step"]["bubble_s"].is_null());
  EXPECT_TRUE(empty["step"]["mfu"].is_null());
}

TEST_F(ResultJson, OneMemoryEntryPerPipelineRank) {
  const OrderedJson& stages = json["memory"]["stages"];
  ASSERT_EQ(stages.size(), 16u);
  expect_begins_with(stages[3], {"stage", "stages", "parameters_bytes", "gradients_bytes", "optimizer_bytes",
                                 "activations_bytes", "buffers_bytes", "peak_bytes"});
  EXPECT_EQ(stages[3]["stage"], 3);
  EXPECT_EQ(stages[3]["stages"], OrderedJson({3, 12}));
}

TEST(MemoryJson, HasTheTimelineTheAdviceAndTheConstants) {
  const model::Memory memory = support::example_result().memory;
  const OrderedJson bare = OrderedJson::parse(memory_to_json(memory, support::example_plan()))["memory"];
  EXPECT_EQ(bare["fullest_rank"], 0);
  EXPECT_EQ(bare["stages"][0]["buffers_bytes"], 3e9);  // 2 GB temporary, 1 GB communication
  EXPECT_EQ(bare["stages"][0]["free_bytes"], 84.94e9 - 58e9);
  EXPECT_TRUE(bare["timeline"].is_null());
  EXPECT_TRUE(bare["advice"].is_null());

  model::RankLevels levels;
  levels.rank.rank = 3;
  levels.ops = {{"a of b in F of micro-batch 0", "F", 1e9, 2e9, 3e9, 46e9}, {"end of the step", "", 0, 0, 1e9, 40e9}};
  levels.peak = {levels.ops[0]};
  model::MemoryAdvice advice;
  advice.tried = 4;
  advice.fitting.push_back(
      {{"recompute.policy=full"}, 50e9, "c of d in B of micro-batch 1", 40e9, 2e9, 9e9, 0.97, 6e9});
  advice.fitting[0].step_ratio = 1.25;
  const model::Parameter constant{"device.reserve.context", 5e8, "B", model::Evidence::assumed, "a guess", {}};
  const OrderedJson full =
      OrderedJson::parse(memory_to_json(memory, support::example_plan(), {&levels, &advice, {constant}}))["memory"];
  EXPECT_EQ(full["timeline"]["rank"], 3);
  EXPECT_EQ(full["timeline"]["ops"].size(), 2u);
  EXPECT_EQ(full["timeline"]["ops"][0]["total_bytes"], 46e9);
  EXPECT_EQ(full["timeline"]["within_fullest_op"][0]["what"], "a of b in F of micro-batch 0");
  EXPECT_EQ(full["advice"]["fitting"][0]["set"], OrderedJson({"recompute.policy=full"}));
  EXPECT_EQ(full["advice"]["fitting"][0]["step_ratio"], 1.25);
  EXPECT_EQ(full["advice"]["fitting"][0]["unused_high_bytes"], 9e9);
  EXPECT_EQ(full["advice"]["fitting"][0]["margin_bytes"], 6e9);
  EXPECT_EQ(full["advice"]["fitting"][0]["fits_probability"], 0.97);
  EXPECT_TRUE(full["advice"]["closest"].is_null());
  EXPECT_EQ(full["constants"][0]["kind"], "assumed");
}

TEST_F(ResultJson, EmbedsTheWholePlanNested) {
  const OrderedJson& plan = json["plan"];
  EXPECT_EQ(plan["parallelism"]["pipeline"], 16);
  EXPECT_EQ(plan["precision"]["gemm"], "fp8");
  EXPECT_EQ(plan["schedule"]["layers_per_stage"].size(), 16u);
  EXPECT_TRUE(plan["cluster"]["nic_gbps"].is_null());
  EXPECT_EQ(plan["overlap"]["gradient_reduce"], true);
  EXPECT_EQ(plan["run"]["phase"][0]["name"], "context_extension");
  // Every key that the plan may hold is there, plus run.phase and campaign.phase.
  std::size_t fields = 0, embedded = 0;
  const auto source = support::example_plan();
  model::visit_fields(source,
                      [&](std::string_view key, const auto&) { fields += model::lacks_section(source, key) ? 0 : 1; });
  for (const auto& section : plan) embedded += section.size();
  EXPECT_EQ(embedded, fields + 2);
}

TEST(MemoryJson, HasTheHalvesOfReinforcementLearning) {
  const model::RolloutMemory halves{60e9, 70e9, 500e9, 85e9, 2000e9, true};
  const OrderedJson both = OrderedJson::parse(
      memory_to_json(support::example_result().memory, support::example_plan(), {nullptr, nullptr, {}, halves}));
  EXPECT_EQ(both["rollout"]["generation_bytes"], 70e9);
}

TEST(ResultJsonText, SurvivesBytesThatAreNotUtf8) {
  auto plan = support::example_plan();
  plan.model.config = "caf\xe9.json";
  EXPECT_NO_THROW({ EXPECT_TRUE(OrderedJson::accept(to_json(support::example_result(), plan))); });
}

}  // namespace
}  // namespace plumbline::reports

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

TEST(Fields, WriteKeysInTheirOrderWithNullForWhatIsNotKnown) {
  Cart cart;
  cart.wheels = {{}, {0.4, 2e5}};
  EXPECT_EQ(written<OrderedJson>(cart).dump(),
            R"({"wheels":[{"radius_m":0.3,"pressure_pa":null},{"radius_m":0.4,"pressure_pa":200000.0}],)"
            R"("load":"hay","driver":null,"trips":0,"balance":0})");
  cart.owner = "Ada";
  cart.covered = true;
  EXPECT_EQ(written<OrderedJson>(cart)["driver"].dump(), R"({"name":"Ada"})");
  EXPECT_EQ(written<OrderedJson>(cart)["cover"], "canvas");
}

TEST(Fields, AreASchemaThatRequiresEveryKeyThatIsNeverLeftOut) {
  const OrderedJson schema = Schema<OrderedJson>::in_full(Cart());
  EXPECT_EQ(schema["required"].dump(), R"(["wheels","load","driver","trips","balance"])");
  EXPECT_EQ(schema["additionalProperties"], false);
  const OrderedJson& of = schema["properties"];
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
  EXPECT_EQ(Schema<OrderedJson>::of(std::optional<Cart>()).dump(),
            R"({"anyOf":[{"$ref":"defs.schema.json#/$defs/cart"},{"type":"null"}]})");
}

}  // namespace
}  // namespace plumbline::reports
