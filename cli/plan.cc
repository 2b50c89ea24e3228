#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/data.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/plan_answer.h"
#include "cli/plan_flips.h"
#include "cli/plan_question.h"
#include "cli/plan_sites.h"
#include "cli/progress.h"
#include "cli/recipe.h"
#include "cli/verb.h"

namespace plumbline::cli {

namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

constexpr int infeasible_exit = 2;
constexpr int interrupted_exit = 130;  // as shells count SIGINT

struct Arguments {
  PlanArguments plan;
  std::vector<std::int64_t> gpus;
  std::vector<std::string> clusters;
  std::string objective = "time", deadline, budget;
  std::size_t top = 10;
  unsigned threads = 0;
  bool complete = false, exhaustive = false;
  std::string json, svg, out;
};

tl::unexpected<Error> input_error(std::string key, std::string message, std::string hint) {
  return tl::make_unexpected(Error{ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)});
}

Result<void> read_limits(const Arguments& arguments, PlanAnswer& answer) {
  const auto objective = parse_objective(arguments.objective);
  if (!objective) return tl::unexpected(objective.error());
  answer.objective = *objective;
  if (!arguments.deadline.empty()) {
    const auto days = parse_days(arguments.deadline);
    if (!days) return tl::unexpected(days.error());
    answer.limits.days = *days;
  }
  if (!arguments.budget.empty()) {
    const auto usd = parse_usd(arguments.budget);
    if (!usd) return tl::unexpected(usd.error());
    answer.limits.usd = *usd;
  }
  return {};
}

// What a limit or an objective rests on must be known of at least one site.
Result<void> check_answerable(const PlanAnswer& answer) {
  if (!answer.has_tokens) {
    const char* option = answer.limits.days ? "--deadline" : answer.limits.usd ? "--budget" : "--objective";
    if (answer.limits.any() || answer.objective == Objective::cost)
      return input_error(option, "days and cost need to know how long the training is",
                         "give the tokens: --set run.tokens=1e12");
  }
  const bool price =
      std::ranges::any_of(answer.sites, [](const Site& site) { return price_of(site).value.has_value(); });
  if (!price && (answer.limits.usd || answer.objective == Objective::cost))
    return input_error(answer.limits.usd ? "--budget" : "--objective", "no price is known of any of the clusters",
                       "give one: --set run.price_usd_per_gpu_hour=2.0");
  return {};
}

// A key that an option of this verb gives.
Result<void> check_overrides(const Arguments& arguments) {
  const bool profile =
      std::ranges::any_of(arguments.clusters, [](const std::string& name) { return name.find(':') != name.npos; });
  for (const std::string& change : arguments.plan.overrides) {
    const auto twice = [&](std::string_view key, bool given) { return given && change.starts_with(key); };
    if (twice("cluster.gpus=", !arguments.gpus.empty()) || twice("cluster.topology=", !arguments.clusters.empty()) ||
        twice("cluster.profile=", profile))
      return input_error("--set", fmt::format("'{}' is also given by --gpus or --cluster", change), "give it once");
  }
  return {};
}

Result<PlanAnswer> load(const Arguments& arguments) {
  PlanAnswer answer;
  if (const auto fine = read_limits(arguments, answer); !fine) return tl::unexpected(fine.error());
  if (const auto fine = check_overrides(arguments); !fine) return tl::unexpected(fine.error());
  const auto recipe = find_recipe(arguments.plan.plan, arguments.gpus);
  if (!recipe) return tl::unexpected(recipe.error());
  const auto names = sites_of(arguments.clusters, arguments.gpus);
  if (!names) return tl::unexpected(names.error());
  answer.name = recipe->name;
  answer.assumptions = recipe->assumptions;
  answer.overrides = arguments.plan.overrides;
  answer.top = arguments.top;
  answer.every_value = arguments.complete || arguments.exhaustive;
  for (const SiteName& name : *names) {
    auto site = load_site(*recipe, name, arguments.plan.overrides);
    if (!site) {
      if (site.error().kind == ErrorKind::input) return tl::unexpected(site.error());
      Site broken;
      broken.cluster = name.cluster;
      broken.gpus = name.gpus;
      broken.error = site.error();
      site = std::move(broken);
    }
    answer.sites.push_back(std::move(*site));
  }
  answer.has_tokens =
      std::ranges::any_of(answer.sites, [](const Site& site) { return site.inputs.plan.run.tokens.has_value(); });
  if (const auto fine = check_answerable(answer); !fine) return tl::unexpected(fine.error());
  return answer;
}

Result<void> search_sites(const Arguments& arguments, PlanAnswer& answer, const Interrupt& interrupt) {
  for (std::size_t i = 0; i < answer.sites.size(); ++i) {
    Site& site = answer.sites[i];
    if (site.error) continue;
    if (interrupt.requested()) break;
    const std::string place =
        answer.sites.size() > 1 ? fmt::format(" ({} of {})", i + 1, answer.sites.size()) : std::string();
    ProgressBar bar(site_name(site) + place + ", plans");
    sim::SearchOptions options;
    options.top = arguments.top;
    options.threads = arguments.threads;
    options.breadth = answer.every_value ? sim::Breadth::complete : sim::Breadth::quick;
    options.exhaustive = arguments.exhaustive;
    options.on_progress = [&bar](const sim::SearchProgress& progress) { bar.update(progress.done, progress.total); };
    options.stopped = [&interrupt] { return interrupt.requested(); };
    if (const auto filled = fill_site(site, options); !filled) return filled;
  }
  answer.complete = !interrupt.requested();
  return {};
}

// A plan that `simulate` reads from anywhere: a model that was found beside the recipe is named by its whole path.
Result<std::string> plan_file(const PlanRow& row) {
  model::Plan plan = row.plan;
  const auto config = resolve_model(plan.file, plan.model.config);
  if (!config) return tl::unexpected(config.error());
  const auto shipped = resolve_model("", plan.model.config);
  std::error_code ignored;
  const bool same = shipped && std::filesystem::equivalent(*shipped, *config, ignored);
  if (!same) plan.model.config = std::filesystem::absolute(*config).lexically_normal().string();
  return model::to_toml(plan);
}

Result<void> write_files(const Arguments& arguments, const PlanAnswer& answer) {
  if (!arguments.json.empty()) {
    if (const auto written = write_output(arguments.json, plan_json(answer)); !written) return written;
  }
  if (!arguments.svg.empty() && !answer.order.empty()) {
    if (const auto written = write_output(arguments.svg, plan_svg(answer)); !written) return written;
  }
  if (arguments.out.empty() || answer.order.empty()) return {};
  const auto content = plan_file(answer.best(0));
  if (!content) return tl::unexpected(content.error());
  return write_output(arguments.out, *content);
}

// What keeps the question from an answer, on stderr; 0 where there is one.
int verdict_exit(const PlanAnswer& answer) {
  if (!answer.complete) {
    fmt::print(stderr, "plumbline: stopped: the answer is incomplete\n");
    return interrupted_exit;
  }
  if (answer.order.empty()) {
    for (const Site& site : answer.sites)
      fmt::print(stderr, "plumbline: {}: no plan: {}\n", site_name(site), why_empty(site));
    return infeasible_exit;
  }
  if (within(answer.best(0).offer, answer.limits)) return 0;
  fmt::print(stderr, "plumbline: no plan meets the limits: {}\n", shortfall(answer));
  return infeasible_exit;
}

Result<int> run(const Arguments& arguments) {
  auto answer = load(arguments);
  if (!answer) return tl::unexpected(answer.error());
  if (arguments.plan.print) {
    fmt::print("{}", model::to_toml(answer->sites.front().inputs.plan));
    return 0;
  }
  const int to_stdout = (arguments.json == "-") + (arguments.svg == "-") + (arguments.out == "-");
  if (to_stdout > 1) return input_error("--json", "only one output can go to stdout", "give the others a file");
  const Interrupt interrupt;
  if (const auto searched = search_sites(arguments, *answer, interrupt); !searched)
    return tl::unexpected(searched.error());
  rank(*answer);
  if (!answer->order.empty() && answer->complete)
    find_flips(*answer, arguments.threads, [&] { return interrupt.requested(); });
  if (const auto written = write_files(arguments, *answer); !written) return tl::unexpected(written.error());
  if (to_stdout == 0) fmt::print("{}", plan_text(*answer, colour()));
  std::fflush(stdout);  // before what stderr adds
  return verdict_exit(*answer);
}

}  // namespace

CLI::App* add_plan(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("plan", "Find the fastest or cheapest plan of a model on one or more clusters");
  const auto arguments = std::make_shared<Arguments>();
  add_plan_arguments(*verb, arguments->plan);
  verb->get_option("PLAN")->description("Name of a shipped model, a config.json, or a plan to search around");
  verb->add_option("--gpus", arguments->gpus, "N[,N...]: sizes of the clusters; default: the plan's")->delimiter(',');
  verb->add_option(
          "--cluster", arguments->clusters,
          "NAME[,NAME...]: shipped topologies or files, each with :PROFILE if not its own; default: the plan's")
      ->delimiter(',');
  verb->add_option("--objective", arguments->objective, "time | cost | gpu-hours: what ranks the clusters")
      ->capture_default_str();
  verb->add_option("--deadline", arguments->deadline, "Longest training: 60d, 36h, 8w");
  verb->add_option("--budget", arguments->budget, "Most USD: 6e6, 5.5M");
  verb->add_option("--top", arguments->top, "Plans to list")->check(CLI::Range(1, 1000))->capture_default_str();
  verb->add_option("--threads", arguments->threads, "Threads of the search; 0: as many as cores")
      ->capture_default_str();
  verb->add_flag("--complete", arguments->complete,
                 "Try every value of each key that makes sense, not only those that usually win (docs/planning.md)");
  verb->add_flag("--exhaustive", arguments->exhaustive,
                 "The same, and evaluate every plan that fits in memory, without bounds");
  verb->add_option("--json", arguments->json, "Write the answer as JSON to a file, or - for stdout");
  verb->add_option("--svg", arguments->svg, "Draw days against dollars to a file, or -");
  verb->add_option("-o", arguments->out, "Write the best plan to a file, or -");
  verb->footer(
      "Ctrl-C prints the best found so far (exit code 130).\n"
      "Examples:\n"
      "  plumbline plan deepseek-v3 --gpus 2048 --cluster h800-rail-fat-tree,h100-dgx,h200-hgx\n"
      "  plumbline plan llama-3-405b --gpus 8192,16384 --cluster h100-dgx:h100-public --objective cost --deadline 60d\n"
      "  plumbline plan my/config.json --gpus 256 --cluster h200-hgx -o best.toml\n"
      "  plumbline plan deepseek-v3-2048xh800 --set search.pipeline=[8,16]");
  verb->callback([arguments, &exit_code] {
    const auto done = run(*arguments);
    exit_code = done ? *done : report(done.error());
  });
  return verb;
}

}  // namespace plumbline::cli
