#include "calibrate/validate/component_case.h"

#include <algorithm>
#include <utility>

#include "model/base/table_reader.h"

namespace plumbline::calibrate {

const ComponentGoal* ComponentComparison::goal(const std::string& family) const {
  const auto found = std::ranges::find(definition.goals, family, &ComponentGoal::family);
  return found == definition.goals.end() ? nullptr : &*found;
}

bool ComponentComparison::holds() const {
  return std::ranges::all_of(profiles, [&](const ComponentErrors& errors) {
    return std::ranges::all_of(errors.summaries, [&](const HeldOutSummary& summary) {
      const ComponentGoal* wanted = goal(summary.family);
      return !summary.table.empty() || wanted == nullptr || summary.median <= wanted->limit;
    });
  });
}

bool is_component_case(const std::string& path) { return model::table_file_has(path, "recipes"); }

model::Result<ComponentCase> load_component_case(const std::string& path) {
  ComponentCase definition;
  TRY(model::read_table_file(path, [&](model::TableReader& file) {
    definition.name = file.text("name");
    definition.profiles = file.texts("recipes");
    file.require("goal");
    file.optional_tables("goal", [&](model::TableReader& table) {
      ComponentGoal goal;
      READ_REQUIRED(table, goal, family, median, limit);
      goal.p90 = table.optional_positive("p90");
      definition.goals.push_back(std::move(goal));
    });
  }));
  return definition;
}

model::Result<ComponentComparison> compare_components(const ComponentCase& definition, ProfileMaker& maker) {
  ComponentComparison comparison{definition, {}};
  for (const std::string& name : definition.profiles) {
    const MadeProfile& made = *TRY(maker.make(name));
    comparison.profiles.push_back({name, summaries(made.held_out)});
  }
  return comparison;
}

}  // namespace plumbline::calibrate
