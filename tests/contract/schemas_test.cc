// The JSON Schemas of the outputs (reports/schema) and the code that writes them. What the verbs write is validated by
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
#include "model/cost/operator_class.h"
#include "model/plan/plan.h"
#include "model/plan/plan_key_table.h"
#include "reports/quantities.h"
#include "tests/support/folders.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path reports_folder = fs::path(source_folder()) / "reports";

json read_schema(const fs::path& path) { return json::parse(model::read_text_file(path.string()).value()); }

std::vector<fs::path> schema_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(reports_folder / "schema")) files.push_back(entry.path());
  return files;
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
  for (const fs::path& path : schema_files()) described.insert(path.stem().stem().string());
  written.insert({"defs", "trace"});  // shared definitions, and what reports/trace writes
  EXPECT_EQ(written, described);
}

TEST(Schemas, HaveNoKeysWithBlanks) {
  for (const fs::path& path : schema_files())
    for_properties(read_schema(path), [&](const std::string& key, const json&) {
      EXPECT_EQ(key.find(' '), std::string::npos) << path << ": " << key;
    });
}

// Returns the definition that a reference names: "defs.schema.json#/$defs/step", or "#/$defs/step" of `file`.
json referenced(const std::string& reference, const std::string& file) {
  const std::size_t hash = reference.find('#');
  const std::string name = hash == 0 ? file : reference.substr(0, hash);
  return read_schema(reports_folder / "schema" / name).at(json::json_pointer(reference.substr(hash + 1)));
}

// A value is described where its key stands, or by the definition that it refers to.
TEST(Schemas, DescribeEveryProperty) {
  for (const fs::path& path : schema_files()) {
    const std::string file = path.filename().string();
    for_properties(read_schema(path), [&](const std::string& key, const json& value) {
      const json& where = value.contains("description") || !value.contains("$ref")
                              ? value
                              : referenced(value["$ref"].get<std::string>(), file);
      EXPECT_FALSE(where.value("description", "").empty()) << file << ": " << key;
    });
  }
}

// Adds the definitions of a plan's keys by their dotted names.
void add_plan_keys(const json& section, const std::string& prefix, std::map<std::string, json>& keys) {
  for (const auto& [key, value] : section["properties"].items()) {
    if (value.contains("properties"))
      add_plan_keys(value, prefix + key + ".", keys);
    else
      keys[prefix + key] = value;
  }
}

std::map<std::string, json> described_plan_keys() {
  std::map<std::string, json> keys;
  add_plan_keys(read_schema(reports_folder / "schema/defs.schema.json")["$defs"]["plan"], "", keys);
  return keys;
}

TEST(Schemas, HaveTheKeysOfPlans) {
  std::set<std::string> described;
  for (const auto& [key, value] : described_plan_keys()) described.insert(key);
  const std::vector<std::string> keys = model::plan_keys();
  std::set<std::string> known(keys.begin(), keys.end());
  std::erase_if(known, [](const std::string& key) { return key.starts_with("model.") && key != "model.config"; });
  EXPECT_EQ(described, known);
}

TEST(Schemas, HaveTheMeaningOfEachKeyOfAPlan) {
  const std::map<std::string, json> described = described_plan_keys();
  for (const model::PlanKey& key : model::plan_key_table()) {
    const auto found = described.find(key.name);
    if (found == described.end()) continue;
    EXPECT_EQ(found->second.value("description", ""), key.meaning) << key.name;
  }
}

TEST(Schemas, HaveTheClassesOfWork) {
  const json step = read_schema(reports_folder / "schema/defs.schema.json")["$defs"]["step"];
  const json& required = step["properties"]["breakdown_s"]["required"];
  std::set<std::string> described(required.begin(), required.end()), known;
  for (const std::string_view name : model::breakdown_names()) known.insert(reports::key_of_name(name));
  EXPECT_EQ(described, known);
}

}  // namespace
}  // namespace plumbline::tests
