// The JSON Schemas of the outputs and the code that writes them. What the verbs write is validated by
// outputs_test.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "model/base/text_file.h"
#include "model/plan/plan.h"
#include "reports/json/json.h"
#include "tests/support/folders.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path reports_folder = fs::path(source_folder()) / "reports";

// Returns the schemas by their names: those of the lists of keys that write an output, and that of traces, a file.
const std::map<std::string, json>& schemas() {
  static const std::map<std::string, json> all = [] {
    std::map<std::string, json> found;
    for (const std::string& name : reports::schema_names()) found[name] = json::parse(*reports::json_schema(name));
    found["trace"] = json::parse(model::read_text_file((reports_folder / "schema/trace.schema.json").string()).value());
    return found;
  }();
  return all;
}

// Calls visit(key, schema of its value) for every property below.
template <class Visit>
void for_properties(const json& schema, Visit visit) {
  if (schema.is_object() && schema.contains("properties"))
    for (const auto& [key, value] : schema["properties"].items()) visit(key, value);
  for (const json& part : schema)
    if (part.is_structured()) for_properties(part, visit);
}

TEST(Schemas, DescribeEveryDocumentThatIsWritten) {
  std::set<std::string> written, described;
  const std::regex call(R"RE(\bdocument(<\w+>)?\(\s*"([a-z-]+)")RE");
  for (const auto& entry : fs::directory_iterator(reports_folder / "json")) {
    if (entry.path().extension() != ".cc") continue;
    const std::string text = model::read_text_file(entry.path().string()).value();
    for (std::sregex_iterator found(text.begin(), text.end(), call), end; found != end; ++found)
      written.insert((*found)[2]);
  }
  for (const auto& [name, schema] : schemas()) described.insert(name);
  written.insert({"defs", "trace"});  // shared definitions, and what reports/trace writes
  EXPECT_EQ(written, described);
}

TEST(Schemas, HaveNoKeysWithBlanks) {
  for (const auto& [name, schema] : schemas())
    for_properties(schema, [&](const std::string& key, const json&) {
      EXPECT_EQ(key.find(' '), std::string::npos) << name << ": " << key;
    });
}

// Returns the definition that a reference names: "defs.schema.json#/$defs/step", or "#/$defs/step" of `schema`.
json referenced(const std::string& reference, const json& schema) {
  const std::size_t hash = reference.find('#');
  const json& root = hash == 0 ? schema : schemas().at(reference.substr(0, reference.find('.')));
  return root.at(json::json_pointer(reference.substr(hash + 1)));
}

// A value is described where its key stands, or by the definition that it refers to.
TEST(Schemas, DescribeEveryProperty) {
  for (const auto& [name, schema] : schemas()) {
    for_properties(schema, [&](const std::string& key, const json& value) {
      const json where = value.contains("description") || !value.contains("$ref")
                             ? value
                             : referenced(value["$ref"].get<std::string>(), schema);
      EXPECT_FALSE(where.value("description", "").empty()) << name << ": " << key;
    });
  }
}

TEST(Schemas, ReferToDefinitionsThatExist) {
  const std::regex reference(R"RE("\$ref":"([^"]+)")RE");
  for (const auto& [name, schema] : schemas()) {
    const std::string text = schema.dump();
    for (std::sregex_iterator found(text.begin(), text.end(), reference), end; found != end; ++found)
      EXPECT_NO_THROW(referenced((*found)[1], schema)) << name << ": " << (*found)[1];
  }
}

// A key that only some plans have is no required one.
TEST(Schemas, RequireTheSectionsThatEveryPlanHas) {
  const json plan = schemas().at("defs")["$defs"]["plan"];
  const std::set<std::string> required(plan["required"].begin(), plan["required"].end());
  std::set<std::string> sections;
  for (const std::string& section : model::plan_sections())
    if (section.find('.') == std::string::npos && section != "batch" && section != "inference" && section != "rollout")
      sections.insert(section);
  EXPECT_EQ(required, sections);
}

}  // namespace
}  // namespace plumbline::tests
