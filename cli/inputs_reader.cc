#include "cli/inputs_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "cli/data.h"
#include "model/architecture/load_architecture.h"
#include "model/architecture/metrics.h"
#include "model/base/decimal.h"
#include "model/base/text_file.h"
#include "model/plan/instance.h"
#include "model/plan/layout.h"
#include "model/plan/rollout.h"
#include "model/profile/device_profile.h"
#include "model/program/compile.h"
#include "model/routing/files.h"
#include "sim/campaign/closed_form.h"
#include "sim/predict/simulate.h"
#include "sim/predict/stage_balance.h"
#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::cli {
namespace {

using model::Error;
using model::Result;
namespace fs = std::filesystem;

constexpr std::string_view profile_prefix = "profile.";
constexpr std::string_view topology_prefix = "topology.";
constexpr std::string_view scaled_prefix = "scaled:";

// Returns an error about a changed constant with the place where the change was given.
Error at_override(Error error, std::string_view prefix) {
  error.file = "--set";
  error.key = std::string(prefix) + error.key;
  return error;
}

// Returns the error of a name that a key of the plan gives, with the key's place. What has a place of its own keeps it.
Error at_key(const model::Plan& plan, const char* key, const Error& error) {
  if (!error.file.empty() || !error.key.empty()) return error;
  return model::plan_error(plan, error.kind, key, error.message, error.hint);
}

// Returns the profile as an estimate on the device, by the datasheet of the first device that it holds for.
Result<model::Profile> scaled_to(const model::Device& device, const model::Profile& profile, const model::Plan& plan) {
  if (profile.devices().empty())
    return tl::unexpected(model::plan_error(plan, model::ErrorKind::input, "cluster.profile",
                                            fmt::format("profile {} names no device to scale from", profile.name()),
                                            "name one that lists `devices`"));
  std::vector<model::Parameter> figures;
  const auto data = TRY(data_folder());
  const auto from = TRY(topologies::load_device(data + "/topologies/devices", profile.devices().front(), figures));
  return model::scaled_profile(profile, from.device, device);
}

// Returns the whole name and notes on stderr, once, that it is not the given one.
Result<std::string> noted_name(model::Memo<std::string, Result<std::string>>& names, const std::string& text,
                               Shipped kind, const char* what) {
  return names.find(fmt::format("{} {}", what, text), [&] {
    auto whole = whole_name(text, {kind});
    if (whole && *whole != text) fmt::print(stderr, "note: '{}' is the {} {}\n", text, what, *whole);
    return whole;
  });
}

// Loads the rates of a name or path, else those of the device.
Result<calibrate::Reliability> reliability_for(const std::string& named, const std::string& named_in,
                                               const std::string& device) {
  if (!named.empty()) return find_reliability(named, named_in);
  return calibrate::reliability_of_device(TRY(data_folder()) + "/reliability", device);
}

// Returns the rates of checkpoints, with those that the plan gives.
sim::CheckpointStorage storage_of(const model::Plan& plan, sim::CheckpointStorage storage) {
  if (!plan.campaign.storage_gbps) return storage;
  const double bytes_per_second = *plan.campaign.storage_gbps * 1e9 / 8;
  (plan.campaign.checkpoint_storage == "ssd" ? storage.ssd : storage.all) = bytes_per_second;
  return storage;
}

sim::CheckpointKind checkpoint_kind(const std::string& word) {
  if (word == "asynchronous") return sim::CheckpointKind::asynchronous;
  return word == "neighbour" ? sim::CheckpointKind::neighbor : sim::CheckpointKind::synchronous;
}

// Returns the fewest spare nodes with which a training loses less than a percent of its time for want of nodes.
std::int64_t enough_spares(sim::CampaignInput campaign) {
  constexpr double almost = 0.99;
  campaign.phases = {{"", 1e7, 1, 1}};  // of which the wait does not depend
  const auto goodput = [&](std::int64_t spares) {
    campaign.spare_nodes = spares;
    return sim::expected_goodput(campaign);
  };
  const std::int64_t nodes = model::ceil_div(campaign.gpus, campaign.gpus_per_node);
  const double most = goodput(nodes);
  std::int64_t spares = 0;
  while (spares < nodes && goodput(spares) < almost * most) ++spares;
  return spares;
}

// Returns the campaign of a plan without its phases.
sim::CampaignInput campaign_of(const sim::Inputs& inputs, const calibrate::Reliability& reliability) {
  constexpr double seconds_per_hour = 3600, seconds_per_day = 86400, days_per_week = 7;
  const model::Plan& plan = inputs.plan;
  const auto& keys = plan.campaign;
  const model::ClusterShape& cluster = inputs.cluster;
  sim::CampaignInput campaign;
  campaign.gpus = plan.cluster.gpus;
  campaign.gpus_per_node = cluster.gpus_per_node;
  campaign.failures = reliability.failures;
  for (sim::FailureMode& mode : campaign.failures) {
    if (keys.detect_s && mode.slows <= 1) mode.detect_s = *keys.detect_s;
    if (keys.repair_days && mode.repair_s > 0) mode.repair_s = *keys.repair_days * seconds_per_day;
  }
  const double bytes = sim::checkpoint_bytes(
      plan, model::model_metrics(inputs.architecture, plan.batch.sequence_length, model::adapters_of(plan)));
  campaign.checkpoint = sim::checkpoint_policy(checkpoint_kind(keys.checkpoint), keys.checkpoint_storage == "ssd",
                                               bytes, cluster, storage_of(plan, reliability.storage));
  campaign.checkpoint.interval_s = keys.checkpoint_interval_s;
  campaign.restart_s = keys.restart_s.value_or(reliability.restart_s);
  campaign.swap_s = reliability.swap_s;
  campaign.elastic = keys.elastic;
  campaign.replica_nodes = sim::replica_nodes(plan, cluster.gpus_per_node);
  campaign.planned_stops_per_day = keys.planned_stops_per_week / days_per_week;
  campaign.planned_stop_s = keys.planned_stop_hours * seconds_per_hour;
  campaign.health_check_every_s = keys.health_check_hours * seconds_per_hour;
  campaign.spare_nodes = keys.spare_nodes ? *keys.spare_nodes : enough_spares(campaign);
  return campaign;
}

// Whether it is the stack of an engine that serves.
bool is_engine(const model::Stack& stack) {
  return std::ranges::any_of(stack.parameters,
                             [](const model::Parameter& constant) { return constant.name.starts_with("serving."); });
}

Result<std::vector<std::string>> shipped_engines() {
  auto names = TRY(shipped_names(Shipped::stack));
  std::erase_if(names, [](const std::string& name) {
    const auto stack = find_stack(name);
    return !stack || !is_engine(*stack);
  });
  return names;
}

// Returns the shipped stack that stands in for the named one on the device, or that one. Its name is the other's with a
// suffix, so that few files are read.
Result<std::string> stack_on(const std::string& device, const std::string& named) {
  for (const std::string& name : TRY(shipped_names(Shipped::stack))) {
    if (!name.starts_with(named + "-")) continue;
    const auto stack = find_stack(name);
    if (stack && stack->extends == named && stack->stands_in_on(device)) return name;
  }
  return named;
}

// Refuses sequences that are longer than those for which the model was made; `most`: what the key may be at most.
Result<void> check_positions(const sim::Inputs& inputs, const char* key, const char* what, double tokens,
                             std::int64_t most) {
  const std::int64_t positions = inputs.architecture.longest_sequence;
  if (positions == 0 || tokens <= static_cast<double>(positions)) return {};
  return tl::unexpected(model::plan_error(inputs.plan, model::ErrorKind::infeasible, key,
                                          fmt::format("{} of {:.0f} tokens has no place in the {} positions of {}",
                                                      what, tokens, positions, inputs.plan.model.config),
                                          fmt::format("use at most {}, or a config.json with more", most)));
}

// Loads the small model that drafts, where the plan names one.
Result<void> add_draft(sim::Inputs& inputs) {
  const model::Plan& plan = inputs.plan;
  if (model::draft_of(plan, inputs.architecture) != model::DraftKind::model) return {};
  auto draft = resolve_model(plan.file, plan.inference.draft).and_then(model::load_architecture);
  if (!draft)
    return tl::unexpected(model::plan_error(plan, draft.error().kind, "inference.draft", draft.error().message,
                                            "use \"mtp\", \"eagle\", \"ngram\" or a small model"));
  inputs.draft = std::make_shared<const model::Architecture>(std::move(*draft));
  return {};
}

// Loads the deployment that generates the answers of a plan with [rollout], and the model that rewards them.
Result<void> add_engines(const model::Plan& plan, const std::optional<std::string>& profile_name,
                         const ConstantChanges& changes, const std::string& held_out, sim::Inputs& inputs) {
  TRY(check_positions(inputs, "rollout.max_answer_tokens", "a sequence",
                      static_cast<double>(plan.rollout.prompt_tokens + plan.rollout.max_answer_tokens),
                      inputs.architecture.longest_sequence - plan.rollout.prompt_tokens));
  InputsReader reader(Purpose::serving);
  inputs.engines = std::make_shared<const sim::Inputs>(
      TRY(reader.of_plan(model::engine_plan(plan), profile_name, changes, held_out)));
  if (plan.rollout.reward_model == model::rule_reward) return {};
  auto reward = resolve_model(plan.file, plan.rollout.reward_model).and_then(model::load_architecture);
  if (!reward)
    return tl::unexpected(model::plan_error(plan, reward.error().kind, "rollout.reward_model", reward.error().message,
                                            "use \"rule\" or a model"));
  inputs.reward = std::make_shared<const model::Architecture>(std::move(*reward));
  return {};
}

}  // namespace

Result<model::Profile> find_profile(const std::string& path_or_name, const std::string& plan_file) {
  const std::string adjacent = fs::path(plan_file).parent_path() / path_or_name;
  const bool is_adjacent = !model::is_file(path_or_name) && model::is_file(adjacent);
  const auto path = TRY(resolve(Shipped::profile, is_adjacent ? adjacent : path_or_name));
  return model::load_profile(path, TRY(data_folder()) + "/profiles");
}

Result<model::Stack> find_stack(const std::string& path_or_name, const std::string& named_in,
                                const std::string& held_out) {
  const auto path = TRY(resolve(Shipped::stack, path_or_name, named_in));
  return model::load_stack(path, TRY(data_folder()) + "/stacks", held_out);
}

Result<model::Plan> find_plan(const std::string& path_or_name, const std::vector<std::string>& overrides) {
  const auto name = TRY(whole_name(path_or_name, {Shipped::plan}));
  return model::load_plan(TRY(resolve(Shipped::plan, name)), overrides);
}

Result<calibrate::Reliability> find_reliability(const std::string& path_or_name, const std::string& named_in) {
  return calibrate::load_reliability(TRY(resolve(Shipped::reliability, path_or_name, named_in)));
}

Result<topologies::Topology> find_topology(const std::string& path_or_name, const topologies::Variation& variation,
                                           const std::string& named_in) {
  const auto name = TRY(whole_name(path_or_name, {Shipped::topology}));
  const auto path = TRY(resolve(Shipped::topology, name, named_in));
  const auto devices = TRY(resolve_device_folder(path));
  return topologies::load_topology(path, devices, variation, TRY(data_folder()) + "/topologies");
}

Result<ConstantChanges> take_constant_changes(std::vector<std::string>& overrides) {
  ConstantChanges changes;
  std::vector<std::string> rest;
  for (std::string& text : overrides) {
    const bool of_profile = text.starts_with(profile_prefix), of_topology = text.starts_with(topology_prefix);
    if (!of_profile && !of_topology) {
      rest.push_back(std::move(text));
      continue;
    }
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const auto number = equals == std::string::npos ? std::nullopt : model::parse_decimal(text.substr(equals + 1));
    if (!number)
      return model::wrong_input_at("--set", 0, key, fmt::format("expected {}=NUMBER, found '{}'", key, text),
                                   "in the constant's own unit; of a name with *, a factor");
    const std::size_t prefix = (of_profile ? profile_prefix : topology_prefix).size();
    (of_profile ? changes.profile : changes.topology).push_back({key.substr(prefix), number->value()});
  }
  overrides = std::move(rest);
  return changes;
}

bool is_of_plan_alone(std::string_view change) {
  constexpr std::array sections = {"parallelism.", "batch.",   "schedule.",  "precision.", "optimizer.",
                                   "training.",    "offload.", "attention.", "loss.",      "recompute.",
                                   "overlap.",     "routing.", "input."};
  constexpr std::array files = {"batch.document_lengths=", "routing.load_file=", "schedule.kind=file:",
                                "schedule.kind=\"file:", "schedule.kind='file:"};
  const auto begins = [change](std::string_view with) { return change.starts_with(with); };
  return std::ranges::any_of(sections, begins) && std::ranges::none_of(files, begins);
}

bool InputsReader::serves(const model::Plan& plan) const {
  return purpose_ == Purpose::serving || (purpose_ == Purpose::stated && model::is_deployment(plan));
}

InputsReader::StackChoice InputsReader::stack_of(const model::Plan& plan, const model::Profile& profile) const {
  if (serves(plan)) return {"inference.engine", plan.inference.engine, true};
  return {"stack.name", plan.stack.name.value_or(profile.stack()), plan.stack.name.has_value()};
}

Result<model::Profile> InputsReader::profile_of(model::Plan& plan, const std::string& name,
                                                const std::vector<model::ConstantChange>& changes,
                                                const std::string& held_out, const model::Device& device,
                                                const std::string& model_type) {
  const bool scaled = name.starts_with(scaled_prefix);
  const std::string own = scaled ? name.substr(scaled_prefix.size()) : name;
  auto profile = TRY(
      profiles_.find({own, plan.file}, [&] { return find_profile(own, plan.file); }).map_error([&](const Error& error) {
        return name == plan.cluster.profile ? at_key(plan, "cluster.profile", error) : error;
      }));
  if (scaled) profile = TRY(scaled_to(device, profile, plan));
  const auto [key, stated, given] = stack_of(plan, profile);
  const auto stack_named = [&, &given = given](const std::string& stack_name) {
    return stacks_.find({stack_name, plan.file, held_out},
                        [&] { return find_stack(stack_name, given ? plan.file : "", held_out); });
  };
  std::string wanted = stated;
  if (!given && !wanted.empty() && wanted != model::no_stack) {
    const auto own_software = stack_named(wanted);
    if (own_software && !own_software->is_of(model_type)) wanted = own_software->other_models;
  }
  const std::string named = TRY(stand_ins_.find({wanted, device.name}, [&] { return stack_on(device.name, wanted); }));
  // The stack of a plan that trains gives way to the engine's; nothing reads one that is given for a deployment.
  const auto place = plan.places.find("stack.name");
  const bool set = place != plan.places.end() && place->second.file == "--set";
  if (model::is_deployment(plan) && set && plan.stack.name != wanted && plan.stack.name != named)
    return tl::unexpected(
        model::plan_error(plan, model::ErrorKind::input, "stack.name", "a deployment has the stack of its engine",
                          fmt::format("set inference.engine, which is \"{}\", and leave stack.name out", wanted)));
  if (named.empty() || named == model::no_stack) {
    profile = model::with_stack(profile, {});
  } else {
    const auto stack = stack_named(named);
    const bool served = serves(plan);
    if (!stack && given && stack.error().file.empty())
      return tl::unexpected(
          model::plan_error(plan, stack.error().kind, key, stack.error().message,
                            served ? model::known_names(named, TRY(shipped_engines())) : stack.error().hint));
    if (!stack) return tl::unexpected(stack.error());
    if (served && !is_engine(*stack))
      return tl::unexpected(model::plan_error(plan, model::ErrorKind::input, key,
                                              fmt::format("the stack {} has no constants of serving", named),
                                              model::known_names(named, TRY(shipped_engines()))));
    TRY(model::apply_stack(*stack, profile, plan));
    if (!given || served) plan.stack.name = named;  // a file of the profile's, too
    profile = model::with_stack(profile, *stack);
  }
  return profile.with_changes(changes).map_error([](const Error& error) { return at_override(error, profile_prefix); });
}

Result<topologies::Topology> InputsReader::topology_of(const model::Plan& plan,
                                                       const std::vector<model::ConstantChange>& changes) {
  topologies::Variation variation = topologies::variation_of(plan);
  variation.constants = changes;
  std::string key = fmt::format("{} {} {} {} {} {} {} {} {} {}", plan.cluster.topology, plan.file, variation.gpus,
                                variation.device.value_or(""), variation.nics_per_node.value_or(-1),
                                variation.nic_gbps.value_or(-1), variation.oversubscription.value_or(-1),
                                variation.background.nic, variation.background.leaf, variation.background.spine);
  for (const model::ConstantChange& change : changes) key += fmt::format(" {}={}", change.name, change.value);
  return topologies_.find(key, [&] { return find_topology(plan.cluster.topology, variation, plan.file); })
      .map_error([&](const Error& error) {
        const bool unknown_constant = error.file.empty() && !changes.empty() && error.key != "cluster.device";
        return unknown_constant ? at_override(error, topology_prefix) : at_key(plan, "cluster.topology", error);
      });
}

Result<model::Plan> with_stage_layers(model::Plan plan) {
  const model::StageLayers& layers = plan.schedule.layers_per_stage;
  if (layers.even || plan.parallelism.pipeline == 1) return plan;
  plan.schedule.layers_per_stage = TRY(InputsReader().of_plan(plan)).plan.schedule.layers_per_stage;
  return plan;
}

Result<sim::Inputs> InputsReader::load(const std::string& plan_name, const std::vector<std::string>& overrides,
                                       const std::optional<std::string>& profile_name) {
  std::vector<std::string> of_plan_keys = overrides;
  const auto changes = TRY(take_constant_changes(of_plan_keys));
  const auto name = TRY(noted_name(names_, plan_name, Shipped::plan, "plan"));
  const auto plan = TRY(find_plan(name, of_plan_keys));
  return of_plan(plan, profile_name, changes);
}

Result<void> InputsReader::add_left(sim::Inputs& inputs, const std::string& held_out) {
  const std::string path = TRY(data_folder()) + "/residuals.csv";
  if (!model::is_file(path)) return {};
  const auto cells = TRY(cells_.find(path, [&] { return calibrate::load_left_cells(path); }));
  using enum calibrate::LeftOf;
  const bool served = serves(inputs.plan);
  const calibrate::StepKind kind = served ? calibrate::serving_kind(inputs) : calibrate::step_kind(inputs);
  const auto left = left_.find({kind, held_out, served}, [&] {
    // Rows of an engine that were taken on one cluster with one client err together.
    std::set<std::string> without{held_out};
    if (served && !held_out.empty()) without.merge(calibrate::sets_of_stack(cells, kind.stack));
    std::map<calibrate::LeftOf, std::optional<sim::Left>> found;
    for (const auto of : served ? std::vector{tpot, rate, ttft} : std::vector{time, memory})
      found[of] = calibrate::left_of(cells, kind, without, of);
    return found;
  });
  const auto of = [&](calibrate::LeftOf quantity) {
    const auto found = left.find(quantity);
    return found == left.end() ? std::nullopt : found->second;
  };
  inputs.left = of(served ? tpot : time);
  inputs.memory_left = of(memory);
  inputs.rate_left = of(rate);
  inputs.ttft_left = of(ttft);
  return {};
}

Result<calibrate::Reliability> InputsReader::add_campaign(sim::Inputs& inputs) {
  if (inputs.plan.rollout.given)
    return tl::unexpected(model::plan_error(inputs.plan, model::ErrorKind::input, "rollout",
                                            "a campaign has steps of pretraining, not of reinforcement learning",
                                            "leave out [rollout], or state run.goodput as a number"));
  const std::string& device = inputs.cluster.device.name;
  const std::string named = inputs.plan.campaign.reliability.value_or("");
  const auto reliability = TRY(reliability_
                                   .find(named.empty() ? "device " + device : named,
                                         [&] { return reliability_for(named, inputs.plan.file, device); })
                                   .map_error([&](const Error& error) {
                                     return named.empty() ? error : at_key(inputs.plan, "campaign.reliability", error);
                                   }));
  inputs.campaign = std::make_shared<const sim::CampaignInput>(campaign_of(inputs, reliability));
  return reliability;
}

Result<void> InputsReader::add_background(model::Plan& plan) {
  constexpr const char* key = "cluster.background_plan";
  if (!plan.cluster.background_plan) return {};
  const auto refuse = [&](std::string message, std::string hint) {
    return tl::unexpected(model::plan_error(plan, model::ErrorKind::input, key, std::move(message), std::move(hint)));
  };
  if (plan.cluster.background) return refuse("the plan gives cluster.background too", "leave one of them out");
  const auto path = resolve(Shipped::plan, *plan.cluster.background_plan, plan.file);
  if (!path) return refuse(path.error().message, path.error().hint);
  auto other = TRY(model::load_plan(*path, {}));
  if (other.cluster.topology != plan.cluster.topology)
    return refuse(fmt::format("that plan runs on {}, this one on {}", other.cluster.topology, plan.cluster.topology),
                  "jobs that share leaves have one topology");
  other.cluster.background_plan.reset();
  const auto load_of_other = [&]() -> Result<topologies::Background> { return sim::mean_load(TRY(of_plan(other))); };
  const auto load = TRY(backgrounds_.find(*path, load_of_other));
  if (std::max(load.leaf, load.spine) >= 1)
    return refuse("that plan leaves nothing of the links above the leaves", "state cluster.background instead");
  plan.cluster.background = model::TierShares{{"leaf", load.leaf}, {"spine", load.spine}};
  plan.cluster.background_plan.reset();
  return {};
}

Result<sim::Inputs> InputsReader::of_plan(const model::Plan& given, const std::optional<std::string>& profile_name,
                                          const ConstantChanges& changes, const std::string& held_out) {
  model::Plan plan = given;
  plan.inference.given = plan.inference.given || purpose_ == Purpose::serving;
  if (plan.rollout.given && purpose_ == Purpose::serving)
    std::call_once(noted_rollout_,
                   [] { fmt::print(stderr, "note: [rollout] is left out; simulate joins its halves\n"); });
  TRY(add_background(plan));
  const auto topology_name = noted_name(names_, plan.cluster.topology, Shipped::topology, "cluster");
  plan.cluster.topology =
      TRY(topology_name.map_error([&](const Error& error) { return at_key(plan, "cluster.topology", error); }));
  const auto config = TRY(resolve_model(plan.file, plan.model.config).map_error([&](const Error& error) {
    const bool of_plan = error.file == plan.file && error.key == "model.config";
    return of_plan ? model::plan_error(plan, error.kind, error.key, error.message, error.hint) : error;
  }));
  const auto architecture = TRY(model::load_architecture_of(plan, config));
  const auto topology = TRY(topology_of(plan, changes.topology));
  TRY(topologies::check_domain(topology.fabric, plan));
  const std::string named = profile_name.value_or(plan.cluster.profile.value_or(topology.cluster.default_profile));
  model::Plan stacked = plan;
  const auto profile =
      TRY(profile_of(stacked, named, changes.profile, held_out, topology.cluster.device, architecture.model_type));
  sim::Inputs inputs{std::move(stacked), architecture, topology.cluster, profile, routing_, topology.fabric};
  if (serves(inputs.plan)) {
    TRY(check_positions(inputs, inputs.plan.inference.lengths ? "inference.lengths" : "inference.input_tokens",
                        "a prompt", model::longest_request(inputs.plan, model::PoolKind::prefill),
                        inputs.architecture.longest_sequence));
    TRY(add_draft(inputs));
    TRY(add_left(inputs, held_out));
    return inputs;
  }
  inputs.plan = sim::with_balanced_stages(inputs.plan, inputs);
  TRY(add_left(inputs, held_out));
  if (plan.rollout.given) TRY(add_engines(plan, profile_name, changes, held_out, inputs));
  if (plan.run.goodput && !model::number_of(*plan.run.goodput)) TRY(add_campaign(inputs));
  return inputs;
}

}  // namespace plumbline::cli
