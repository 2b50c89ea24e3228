#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "cli/data.h"
#include "cli/detail/shapes.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/architecture/load_architecture.h"
#include "model/base/units.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/plan/plan_key_table.h"
#include "model/profile/constant_rules.h"
#include "model/program/compile.h"
#include "model/routing/rank_rows.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "reports/json/json.h"
#include "reports/text/inputs/inputs_text.h"
#include "reports/text/inputs/measurements_text.h"
#include "reports/text/step/summary.h"
#include "sim/predict/simulate.h"
#include "topologies/fabric.h"

namespace plumbline::cli {
namespace {

// Options of --collectives; empty ones take the defaults and the topology's profile.
struct CollectivesArguments {
  bool wanted = false;
  std::string collective, least, most, profile;
  // Returns an option that does not apply to this `kind`, or without --collectives; nullptr when all apply.
  const char* misplaced(std::string_view kind) const {
    if (wanted) return kind == "topology" ? nullptr : "--collectives";
    if (!collective.empty()) return "--collective";
    if (!least.empty()) return "--min";
    if (!most.empty()) return "--max";
    return profile.empty() ? nullptr : "--profile";
  }
};

struct ShowArguments {
  std::string kind, name, svg, partition;
  std::vector<std::string> overrides;
  bool shapes = false, markdown = false;
  std::int64_t sequence_length = 4096;
  std::int64_t gpus = 0;
  std::int64_t steps = 1000;
  std::string json, csv, expert_loads, cases;
  CollectivesArguments collectives;
};

// What is printed, and the rows of its table as CSV.
struct Shown {
  std::string text, csv;
};

model::Result<Shown> show_model(const ShowArguments& arguments) {
  if (arguments.shapes)
    return Shown{TRY(show_shapes(arguments.name, arguments.sequence_length, arguments.overrides)), ""};
  return resolve_model("", arguments.name).and_then(model::load_architecture).map([&](const auto& architecture) {
    return Shown{reports::model_text(architecture, arguments.sequence_length),
                 reports::model_csv(architecture, arguments.sequence_length)};
  });
}

model::Result<Shown> show_profile(const ShowArguments& arguments) {
  return find_profile(arguments.name).map([](const model::Profile& profile) {
    return Shown{reports::profile_text(profile), reports::constants_csv(profile.parameters())};
  });
}

// Returns the stack of that name, or the list of the shipped ones.
model::Result<Shown> show_stack(const ShowArguments& arguments) {
  if (!arguments.name.empty())
    return find_stack(arguments.name).map([](const model::Stack& stack) {
      return Shown{reports::stack_text(stack), reports::stack_csv(stack)};
    });
  std::vector<model::Stack> stacks;
  for (const std::string& name : TRY(shipped_names(Shipped::stack))) stacks.push_back(TRY(find_stack(name)));
  return Shown{reports::stacks_text(stacks), reports::stacks_csv(stacks)};
}

// Returns the constants of a profile of that name, or those below it.
model::Result<Shown> show_constants(std::string_view name) {
  const auto rules = TRY(model::find_constant_rules(name));
  return Shown{reports::constant_rules_text(rules), reports::constant_rules_csv(rules)};
}

// Returns the keys of a plan: all of them, those of a section, or one; where no key has the name, constants of
// profiles.
model::Result<Shown> show_keys(const ShowArguments& arguments) {
  constexpr std::string_view of_profiles = "profile.";  // as --set has them
  const std::string_view name = arguments.name;
  if (name.starts_with(of_profiles)) return show_constants(name.substr(of_profiles.size()));
  const auto keys = name.empty() ? model::plan_key_table() : model::find_plan_keys(name);
  if (keys)
    return Shown{arguments.markdown ? reports::keys_markdown(*keys) : reports::keys_text(*keys),
                 reports::keys_csv(*keys)};
  auto constants = show_constants(name);
  const std::string section(name.substr(0, name.find('.')));
  const std::vector<std::string> sections = model::plan_sections();
  const bool is_of_plan = std::ranges::find(sections, section) != sections.end();
  if (constants || (!is_of_plan && model::find_constant_rules(section))) return constants;
  return tl::unexpected(keys.error());
}

model::Result<Shown> show_reliability(const ShowArguments& arguments) {
  return find_reliability(arguments.name).map([](const calibrate::Reliability& reliability) {
    return Shown{reports::reliability_text(reliability), reports::constants_csv(reliability.parameters)};
  });
}

model::Result<reports::CollectivesOptions> options_of(const CollectivesArguments& arguments) {
  reports::CollectivesOptions options;
  if (!arguments.collective.empty()) {
    auto collective = model::parse_collective(arguments.collective);
    if (!collective) {
      collective.error().key = "--collective";
      return tl::unexpected(collective.error());
    }
    options.collective = *collective;
  }
  for (const auto& [text, option, value] :
       {std::tuple{&arguments.least, "--min", &options.least}, std::tuple{&arguments.most, "--max", &options.most}}) {
    if (text->empty()) continue;
    *value = TRY(model::parse_binary_size(*text, option));
  }
  if (options.least > options.most) return model::wrong_input("--max", "is below --min");
  return options;
}

model::Result<Shown> show_collectives(const ShowArguments& arguments) {
  const auto options = TRY(options_of(arguments.collectives));
  topologies::Variation variation;
  variation.gpus = arguments.gpus;
  const auto topology = TRY(find_topology(arguments.name, variation));
  const std::string& other = arguments.collectives.profile;
  const auto profile = TRY(find_profile(other.empty() ? topology.cluster.default_profile : other));
  auto text = TRY(reports::collectives_text(topology.cluster, profile, options));
  auto csv = TRY(reports::collectives_csv(topology.cluster, profile, options));
  return Shown{std::move(text), std::move(csv)};
}

// Returns a cluster with `gpus` GPUs (0: 2,048, or as many as the wiring connects).
model::Result<topologies::Topology> drawn_topology(const std::string& name, std::int64_t gpus) {
  constexpr std::int64_t usual_gpus = 2048;
  topologies::Variation variation;
  variation.gpus = gpus;
  auto topology = find_topology(name, variation);
  if (!topology || gpus > 0) return topology;
  topology->cluster.gpus = std::min(usual_gpus, topologies::capacity(topology->fabric).gpus);
  return topology;
}

model::Result<Shown> show_topology(const ShowArguments& arguments) {
  if (arguments.collectives.wanted) return show_collectives(arguments);
  auto topology = TRY(drawn_topology(arguments.name, arguments.gpus));
  const auto fabric = TRY(topologies::Fabric::make(topology.fabric, topology.cluster.gpus));
  topology.cluster.fabric = topologies::count_parts(fabric);
  return Shown{reports::topology_drawing(topology, fabric) + '\n' + reports::topology_text(topology.cluster),
               reports::constants_csv(reports::constants_of(topology.cluster))};
}

// Returns the text, which is empty when a picture goes to stdout.
model::Result<Shown> show_measurements(const ShowArguments& arguments) {
  const auto devices = TRY(known_devices());
  const auto measurements = TRY(read_measurements(arguments.name, devices));
  if (!arguments.svg.empty())
    TRY(write_output(arguments.svg, reports::line_chart_svg(reports::roofline_chart(measurements, devices))));
  if (!arguments.partition.empty())
    TRY(write_output(arguments.partition, reports::line_chart_svg(reports::partition_chart(measurements))));
  if (arguments.svg == "-" || arguments.partition == "-") return Shown();
  return Shown{reports::measurements_text(measurements, devices), calibrate::to_csv(measurements)};
}

// Returns the text, which is empty when a file goes to stdout.
model::Result<Shown> show_routing(const ShowArguments& arguments) {
  const auto inputs = TRY(load_inputs(arguments.name, arguments.overrides));
  TRY(model::make_layout(inputs.plan, inputs.architecture));
  if (!model::states_expert_loads(inputs.plan))
    return model::infeasible("routing.skew", "the plan does not state what its experts receive",
                             "give routing.skew or routing.load_file, for example with --set routing.skew=0.2");
  const auto routing = model::routing_statistics(inputs.plan, inputs.architecture, arguments.steps);
  const std::string title = fmt::format("routing of {}", arguments.name);
  if (!arguments.json.empty()) TRY(write_output(arguments.json, reports::routing_json(routing)));
  if (!arguments.expert_loads.empty())
    TRY(write_output(arguments.expert_loads, model::expert_loads_csv(routing.loads, {"shares of experts: " + title})));
  if (arguments.json == "-" || arguments.expert_loads == "-") return Shown();
  return Shown{reports::routing_text(routing, title), reports::routing_csv(routing)};
}

// Returns what a prediction of a plan rests on; with --cases its kernels go to a file.
model::Result<Shown> show_coverage(const ShowArguments& arguments) {
  const auto inputs = TRY(load_inputs(arguments.name, arguments.overrides));
  const auto simulation = TRY(sim::simulate(inputs, sim::Fidelity::step, {}));
  if (!arguments.cases.empty()) {
    const auto cases = TRY(show_shapes(arguments.name, arguments.sequence_length, arguments.overrides));
    TRY(write_output(arguments.cases, cases));
    if (arguments.cases == "-") return Shown();
  }
  const reports::CoveredStep step{simulation.result, inputs.plan, inputs.cluster.device.name, inputs.profile.devices()};
  return Shown{reports::coverage_text(step), reports::coverage_csv(step)};
}

// Without a name it lists them.
model::Result<Shown> show_schema(const ShowArguments& arguments) {
  const std::string& name = arguments.name;
  const std::vector<std::string> names = reports::schema_names();
  if (name.empty()) return Shown{fmt::format("{}\n", fmt::join(names, "\n")), ""};
  if (const auto schema = reports::json_schema(name)) return Shown{*schema, ""};
  return model::wrong_input("NAME", fmt::format("no output is named '{}'", name), model::known_names(name, names));
}

struct ShownKind {
  std::string_view name;
  model::Result<Shown> (*show)(const ShowArguments& arguments);
  std::optional<Shipped> listed = {};  // whose names are listed where none is given
};
constexpr ShownKind shown_kinds[] = {{"model", show_model, Shipped::model},
                                     {"topology", show_topology, Shipped::topology},
                                     {"profile", show_profile, Shipped::profile},
                                     {"stack", show_stack},
                                     {"reliability", show_reliability, Shipped::reliability},
                                     {"measurements", show_measurements},
                                     {"routing", show_routing},
                                     {"coverage", show_coverage},
                                     {"key", show_keys},
                                     {"schema", show_schema}};

// Returns whether nothing but the kind is given, and so its names are listed.
bool lists_names(const ShowArguments& arguments, const ShownKind& kind) {
  return kind.listed && arguments.name.empty() && arguments.gpus == 0 && !arguments.shapes &&
         !arguments.collectives.wanted;
}

model::Result<Shown> show(const ShowArguments& arguments, const ShownKind& kind) {
  if (!lists_names(arguments, kind)) return kind.show(arguments);
  const auto names = TRY(shipped_names(*kind.listed));
  return Shown{fmt::format("{}\n", fmt::join(names, "\n")), fmt::format("name\n{}\n", fmt::join(names, "\n"))};
}

model::Result<const ShownKind*> find_shown_kind(const std::string& name) {
  const auto* found = std::ranges::find(shown_kinds, name, &ShownKind::name);
  if (found != std::end(shown_kinds)) return found;
  std::vector<std::string> names;
  for (const ShownKind& kind : shown_kinds) names.emplace_back(kind.name);
  return model::wrong_input("", fmt::format("cannot show '{}'", name), model::known_names(name, names));
}

// Refuses options that belong to another kind.
model::Result<void> check(const ShowArguments& given, const ShownKind& kind) {
  const bool measurements = kind.name == "measurements", routing = kind.name == "routing";
  const bool coverage = kind.name == "coverage", schema = kind.name == "schema";
  const char* misplaced = given.collectives.misplaced(kind.name);
  const struct {
    bool is_foreign;
    const char *option, *of;
  } options[] = {{!given.svg.empty() && !measurements, "--svg", "show measurements"},
                 {!given.partition.empty() && !measurements, "--partition", "show measurements"},
                 {given.gpus > 0 && kind.name != "topology", "--gpus", "show topology"},
                 {misplaced != nullptr, misplaced, "show topology --collectives"},
                 {given.shapes && kind.name != "model", "--shapes", "show model"},
                 {given.markdown && kind.name != "key", "--markdown", "show key"},
                 {!given.json.empty() && !routing, "--json", "show routing"},
                 {!given.expert_loads.empty() && !routing, "--expert-loads", "show routing"},
                 {!given.cases.empty() && !coverage, "--cases", "show coverage"},
                 {!given.overrides.empty() && !given.shapes && !routing && !coverage, "--set",
                  "show model --shapes', 'show routing' and 'show coverage"}};
  for (const auto& [is_foreign, option, of] : options)
    if (is_foreign) return model::wrong_input(option, fmt::format("only for '{}'", of));
  if (!given.csv.empty() && (schema || given.shapes))
    return model::wrong_input("--csv", schema ? "a schema has no table" : "the shapes are a file of cases",
                              "leave it out");
  if (given.name.empty() && kind.name != "stack" && kind.name != "key" && !schema && !lists_names(given, kind))
    return model::wrong_input("NAME", "is required");
  return {};
}

model::Result<int> run(const ShowArguments& arguments) {
  const ShownKind& kind = *TRY(find_shown_kind(arguments.kind));
  TRY(check(arguments, kind));
  const auto shown = TRY(show(arguments, kind));
  if (arguments.csv.empty()) return printed(shown.text);
  TRY(write_output(arguments.csv, shown.csv));
  return arguments.csv == "-" ? 0 : printed(shown.text);
}

void add_collectives_options(CLI::App& verb, CollectivesArguments& arguments) {
  verb.add_flag("--collectives", arguments.wanted,
                "Of a topology: predicted times of a collective by size, in the columns of nccl-tests");
  verb.add_option("--collective", arguments.collective,
                  "With --collectives: all_reduce (default) | reduce_scatter | all_gather | broadcast | all_to_all | "
                  "send_recv");
  verb.add_option("--min", arguments.least, "With --collectives: smallest size, 8 by default");
  verb.add_option("--max", arguments.most, "With --collectives: largest size, 8G by default");
  verb.add_option("--profile", arguments.profile, "With --collectives: another cost profile than the topology's");
}

std::string line_of(const model::KernelShape& shape, const std::string& model) {
  std::string line = fmt::format("{} name={}/{}", shape.op, model, shape.name);
  if (!shape.phase.empty()) line += " phase=" + shape.phase;
  if (!shape.format.empty()) line += " format=" + shape.format;
  for (const auto& [name, extent] : shape.extents) {
    const bool usual = name == "groups" && extent == 1;
    if (!usual) line += fmt::format(" {}={}", name, extent);
  }
  return line;
}

// Returns the smallest plan of a model.
model::Result<model::Plan> plan_around(const std::string& config, std::int64_t sequence_length,
                                       const std::vector<std::string>& overrides) {
  model::Plan plan;
  plan.model.config = config;
  plan.cluster.topology = "none";
  plan.cluster.gpus = 1;
  plan.batch.sequence_length = sequence_length;
  plan.batch.micro_batch_size = 1;
  plan.batch.global_batch_size = 1;
  return model::read_plan(model::to_toml(plan), config, overrides);
}

model::Result<model::KernelShapes> shapes_of(const model::Plan& plan, const model::Architecture& architecture) {
  return model::compile(plan, architecture, TRY(model::make_layout(plan, architecture))).map(model::kernel_shapes);
}

}  // namespace

void add_show(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand(
      "show",
      "Print the contents of a model, a cluster, a cost profile, a software stack, rates of failures or measurements, "
      "how uneven the experts of a plan are, what a prediction rests on, or what the keys of plans and outputs "
      "mean");
  const auto arguments = std::make_shared<ShowArguments>();
  verb->add_option(
          "KIND", arguments->kind,
          "model | topology | profile | stack | reliability | measurements | routing | coverage | key | schema")
      ->required();
  verb->add_option(
      "NAME", arguments->name,
      "A shipped name or a file; of models, topologies, profiles, stacks and rates of failures none, to list those "
      "that are shipped; of keys, a key, a section, a constant of profiles, or none, for all keys; of schemas, an "
      "output of --json, or none, for their names");
  verb->add_option("--sequence-length", arguments->sequence_length,
                   "Tokens of a sequence, for a model's FLOPs per token")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  verb->add_flag("--shapes", arguments->shapes,
                 "Of a model or plan: the shapes of its kernels on one rank, as cases for plumbline measure");
  add_repeatable(*verb, "--set", arguments->overrides,
                 "With --shapes, and of routing and coverage: override a key of the plan (repeatable)");
  verb->add_option("--json", arguments->json, "Of routing: write JSON to a file, or - for stdout");
  verb->add_option("--csv", arguments->csv, "Write the rows of the table as CSV to a file, or - for stdout");
  verb->add_option("--expert-loads", arguments->expert_loads,
                   "Of routing: write the load of each expert as a file for routing.load_file, or - for stdout");
  verb->add_option("--cases", arguments->cases,
                   "Of coverage: write the plan's kernels as cases for plumbline measure to a file, or - for stdout");
  verb->add_option("--steps", arguments->steps, "Of routing: steps in which biases balance the experts")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  verb->add_flag("--markdown", arguments->markdown, "Of keys: a page of Markdown, as docs/keys.md");
  verb->add_option("--svg", arguments->svg, "Of measurements: write their roofline to a file, or - for stdout");
  verb->add_option("--partition", arguments->partition,
                   "Of measurements: draw how leaving SMs to a copy slows kernels, to a file, or - for stdout");
  verb->add_option("--gpus", arguments->gpus, "Of a topology: GPUs to draw (default: 2048, or all that it connects)")
      ->check(CLI::Range(1, 1'000'000'000));
  add_collectives_options(*verb, arguments->collectives);
  verb->footer(
      "Examples:\n"
      "  plumbline show model deepseek-v3 --sequence-length 8192\n"
      "  plumbline show model deepseek-v3 --shapes --set precision.gemm=fp8 > deepseek.cases\n"
      "  plumbline show measurements h200.jsonl --svg roofline.svg --partition partition.svg\n"
      "  plumbline show topology h800-rail-fat-tree --gpus 16384\n"
      "  plumbline show topology h100-dgx --gpus 16 --collectives --collective all_gather\n"
      "  plumbline show routing deepseek-v3-2048xh800 --set routing.skew=0.2 --set routing.imbalance=0 "
      "--set routing.balancing=bias\n"
      "  plumbline show coverage deepseek-v3-2048xh800 --cases missing.cases\n"
      "  plumbline show profile\n"
      "  plumbline show profile h800\n"
      "  plumbline show stack megatron-core-2025\n"
      "  plumbline show reliability h100-llama3\n"
      "  plumbline show key parallelism.zero_stage\n"
      "  plumbline show key gemm.bf16.k_time\n"
      "  plumbline show schema simulate");
  verb->callback([arguments, &exit_code] { exit_code = exit_of(run(*arguments)); });
}

std::string shapes_text(const model::KernelShapes& shapes, const std::string& model) {
  std::string text;
  for (const model::KernelShape& shape : shapes.shapes) {
    const std::string line = line_of(shape, model);
    const auto measured = real::parse_kernel_case(line);
    const std::string problem = measured ? "" : measured.error().message;
    const std::string often = shape.op == "adamw" ? "per step" : "per micro-batch";
    text += fmt::format("{}{}  # {} {}{}\n", problem.empty() ? "" : "# ", line, shape.count, often,
                        problem.empty() ? "" : "; not measured: " + problem);
  }
  return text +
         fmt::format("# not among the kernels that are measured by themselves: {}\n", fmt::join(shapes.others, ", "));
}

model::Result<std::string> show_shapes(const std::string& name, std::int64_t sequence_length,
                                       const std::vector<std::string>& overrides) {
  const auto config = resolve_model("", name);
  const auto plan_file = resolve(Shipped::plan, name);
  const bool is_plan = plan_file && (!config || name.ends_with(".toml"));
  if (!is_plan && !config) return tl::unexpected(config.error());
  const auto plan =
      TRY(is_plan ? model::load_plan(*plan_file, overrides) : plan_around(*config, sequence_length, overrides));
  const auto architecture = TRY(resolve_model(plan.file, plan.model.config).and_then([&plan](const std::string& path) {
    return model::load_architecture_of(plan, path);
  }));
  const auto shapes = TRY(shapes_of(plan, architecture));
  const std::string where =
      is_plan ? "plan " + std::filesystem::path(plan.file).stem().string() : "the plan's defaults";
  return fmt::format("# {} by {}, on one rank; {} x {} tokens per micro-batch\n", architecture.name, where,
                     plan.batch.micro_batch_size, plan.batch.sequence_length) +
         shapes_text(shapes, architecture.name);
}

}  // namespace plumbline::cli
