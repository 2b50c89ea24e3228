#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>

#include "model/base/text.h"
#include "model/plan/plan_fields.h"
#include "model/plan/plan_key_table.h"
#include "reports/json/detail/shared_fields.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json plan_value(const T& value) {
  if constexpr (requires { value.has_value(); })
    return value ? plan_value(*value) : Json(nullptr);
  else if constexpr (std::is_same_v<T, model::ConfigValue>)
    return std::visit([](const auto& alternative) { return Json(alternative); }, value);
  else if constexpr (std::is_same_v<T, model::StageLayers>)
    return value.counts.empty() ? Json(value.even ? "even" : "balanced") : Json(value.counts);
  else if constexpr (std::is_same_v<T, model::AcceptanceShares>)
    return value.shares.size() == 1 ? Json(value.shares.front()) : Json(value.shares);
  else
    return written<Json>(value);
}

template <class T>
Json schema_of_plan_value(const T& value) {
  const Json number = {{"type", "number"}};
  if constexpr (requires { value.has_value(); }) {
    Json schema = or_null(schema_of_plan_value(typename T::value_type{}));
    return schema;
  } else if constexpr (std::is_same_v<T, model::ConfigValue>) {
    return {{"type", {"number", "string", "boolean"}}};
  } else if constexpr (std::is_same_v<T, model::StageLayers>) {
    const Json counts = {{"type", "array"}, {"items", {{"type", "integer"}}}};
    return {{"anyOf", {counts, {{"enum", {"balanced", "even"}}}}}};
  } else if constexpr (std::is_same_v<T, model::AcceptanceShares>) {
    return {{"type", {"number", "array"}}, {"items", number}};
  } else {
    return Schema<Json>::of(value);
  }
}

// Returns the table of the section, which it makes where there is none.
Json& table_of(Json& json, std::string_view section) {
  Json* table = &json;
  for (const std::string_view name : model::split_at(section, '.')) table = &(*table)[std::string(name)];
  return *table;
}

std::string leaf_of(std::string_view key) { return std::string(key.substr(key.rfind('.') + 1)); }

Json object_schema(const std::string& description) {
  return {{"description", description},
          {"type", "object"},
          {"required", Json::array()},
          {"additionalProperties", false},
          {"properties", Json::object()}};
}

void add_required(Json& object, const std::string& key, Json schema) {
  object["required"].push_back(key);
  object["properties"][key] = std::move(schema);
}

}  // namespace

template <class OrderedJson>
Stated<OrderedJson> plan_part(const model::Plan& plan) {
  Json json = Json::object();
  model::visit_fields(plan, [&](std::string_view key, const auto& field) {
    if (!model::lacks_section(plan, key)) table_of(json, model::plan_section(key))[leaf_of(key)] = plan_value(field);
  });
  const auto phases = [](const auto& list) {
    Json rows = Json::array();
    for (const auto& phase : list) {
      Json& row = rows.emplace_back(Json::object());
      model::visit_phase(phase, [&row](const char* key, const auto& field) { row[key] = plan_value(field); });
    }
    return rows;
  };
  json["campaign"]["phase"] = phases(plan.campaign.phases);
  json["run"]["phase"] = phases(plan.run.phases);
  return {json, reference<Json>("plan")};
}
template Stated<Json> plan_part<Json>(const model::Plan& plan);

std::string plan_schema() {
  std::map<std::string, std::string> meanings;
  for (const model::PlanKey& key : model::plan_key_table()) meanings[key.name] = key.meaning;
  Json plan = object_schema(
      "The plan with every default: sections and keys are those of a plan's TOML file, where their units and meanings "
      "are stated. null: not given, and no default is a value.");
  const auto section_of = [&plan](std::string_view name) -> Json& {
    Json* section = &plan;
    std::string path;
    for (const std::string_view part : model::split_at(name, '.')) {
      path += (path.empty() ? "" : ".") + std::string(part);
      if (!(*section)["properties"].contains(part))
        add_required(*section, std::string(part), object_schema("Keys of [" + path + "]."));
      section = &(*section)["properties"][std::string(part)];
    }
    return *section;
  };
  const auto add = [&](Json& table, const std::string& key, const auto& field) {
    add_required(table, leaf_of(key), with_description(meanings[key], schema_of_plan_value(field)));
  };
  const model::Plan defaults;
  model::visit_fields(defaults, [&](std::string_view key, const auto& field) {
    add(section_of(model::plan_section(key)), std::string(key), field);
  });
  const auto add_phases = [&](const char* section, const char* description, const auto& phase) {
    Json row = object_schema("");
    row.erase("description");
    model::visit_phase(
        phase, [&](const char* key, const auto& field) { add(row, std::string(section) + ".phase." + key, field); });
    add_required(section_of(section), "phase", {{"description", description}, {"type", "array"}, {"items", row}});
  };
  add_phases("campaign", "Phases of the campaign, in order.", model::CampaignPhaseKeys());
  add_phases("run", "Phases whose cost is stated, not predicted.", model::RunPhase());
  // model::lacks_section() names those that some plans have not; [model] takes keys of a config.json as well.
  Json required = Json::array();
  for (const Json& section : plan["required"])
    if (section != "batch" && section != "inference" && section != "rollout") required.push_back(section);
  plan["required"] = required;
  Json& model = plan["properties"]["model"];
  model["description"] = "config, and keys of the config.json that the plan overrides";
  model["additionalProperties"] = schema_of_plan_value(model::ConfigValue());
  return text_of_json(plan);
}

}  // namespace plumbline::reports
