#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/data.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/base/text_file.h"
#include "model/base/version.h"
#include "model/plan/plan.h"
#include "model/plan/plan_key_table.h"
#include "reports/html/page.h"

namespace plumbline::cli {
namespace {

using Json = nlohmann::ordered_json;

Json keys_json() {
  Json keys = Json::object();
  for (const model::PlanKey& key : model::plan_key_table())
    keys[key.name] = {{"unit", key.unit}, {"meaning", key.meaning}, {"words", key.words}};
  return keys;
}

// Returns the texts of the shipped plans of trainings by name, but of those with engines that generate: these and
// others need the command.
model::Result<Json> plans_json() {
  Json plans = Json::object();
  for (const std::string& name : TRY(shipped_names(Shipped::plan))) {
    const std::filesystem::path file = TRY(resolve(Shipped::plan, name));
    if (file.parent_path().filename() != "examples") continue;
    if (!TRY(model::load_plan(file.string(), {})).rollout.given)
      plans[name] = TRY(model::read_text_file(file.string()));
  }
  return plans;
}

// Returns what the page offers: names of models, clusters and profiles, the plans, and what their keys mean.
model::Result<std::string> shipped_json() {
  return Json{{"version", model::version},
              {"plans", TRY(plans_json())},
              {"models", TRY(shipped_names(Shipped::model))},
              {"topologies", TRY(shipped_names(Shipped::topology))},
              {"profiles", TRY(shipped_names(Shipped::profile))},
              {"keys", keys_json()}}
      .dump();
}

// Reads the predictor, which is built where em++ is.
model::Result<reports::PageEngine> playground_engine() {
  const std::string path = TRY(data_folder()) + "/playground";
  const auto script = model::read_file(path + ".js"), module = model::read_file(path + ".wasm");
  if (script && module) return reports::PageEngine{*script, *module, TRY(shipped_json())};
  return model::wrong_input_at(path + ".js", 0, "", "this build has no predictor for pages",
                               "install em++ (emscripten), then configure with -DPLUMBLINE_PLAYGROUND=ON and build");
}

model::Result<int> write_playground(const Outputs& outputs) {
  const auto engine = TRY(playground_engine());
  const auto page = TRY(reports::playground_html(engine));
  TRY(outputs.write({{"-o", [&] { return page; }}}));
  return 0;
}

}  // namespace

void add_playground(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("playground", "Write a page that predicts by itself, in a browser");
  const auto outputs = std::make_shared<Outputs>();
  outputs->add(*verb, "-o", "Write the self-contained page to a file, or - for stdout");
  verb->get_option("-o")->required();
  verb->footer(
      "The page has the predictor, the shipped plans, models, clusters and profiles in it. It needs no network.\n\n"
      "Examples:\n"
      "  plumbline playground -o playground.html");
  verb->callback([outputs, &exit_code] { exit_code = exit_of(write_playground(*outputs)); });
}

}  // namespace plumbline::cli
