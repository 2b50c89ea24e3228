// Rules for the shipped ledger: every prediction names the sources that made it, and none is younger than its
// measurement.
#include "calibrate/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "model/base/text_file.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

// Returns what is wrong with the entries of a ledger.
std::vector<std::string> wrong_entries(const std::string& folder) {
  std::vector<std::string> wrong;
  std::set<std::string> seen;
  for (const std::string& name : model::names_in_folder(folder, ".toml")) {
    const auto entry = calibrate::read_ledger_entry((std::filesystem::path(folder) / (name + ".toml")).string());
    if (!entry) {
      wrong.push_back(name + ": " + entry.error().key + ": " + entry.error().message);
      continue;
    }
    if (!std::regex_match(entry->revision, std::regex("[0-9a-f]{7,40}")))
      wrong.push_back(name + ": no commit is named '" + entry->revision + "'");
    if (!name.starts_with(entry->date.substr(0, 10) + "-" + entry->plan + "-"))
      wrong.push_back(name + ": its name has another date or plan");
    if (!seen.insert(entry->date + entry->plan_toml + entry->constants_hash).second)
      wrong.push_back(name + ": the same prediction twice");
  }
  return wrong;
}

TEST(Ledger, OfTheRepositoryIsMadeOfPredictions) {
  EXPECT_THAT(wrong_entries(shipped("calibrate/ledger")), testing::IsEmpty());
}

TEST(Ledger, ViolationsAreFound) {
  const TemporaryDirectory folder;
  calibrate::LedgerEntry entry;
  entry.date = "2026-11-23T10:30:00Z";
  entry.version = "0.1.0";
  entry.revision = "9a65f9bc1234-dirty";
  entry.plan = "a";
  entry.plan_toml = "[model]\n";
  entry.profile = entry.device = entry.fidelity = entry.constants_hash = "x";
  entry.draws = 1;
  entry.time_s = 1;
  entry.time = entry.peak_bytes = {1, 2, 3};
  folder.write("2026-11-23-a-x.toml", calibrate::ledger_toml(entry));
  entry.revision = "9a65f9bc1234";
  entry.measured = {.time_s = 2, .date = "2026-11-22T10:30:00Z", .source = "someone"};
  folder.write("2026-11-23-b-x.toml", calibrate::ledger_toml(entry));
  entry.measured.reset();
  entry.time = {2, 1, 3};
  folder.write("2026-11-23-c-x.toml", calibrate::ledger_toml(entry));
  EXPECT_THAT(wrong_entries(folder.path().string()),
              testing::ElementsAre(testing::HasSubstr("no commit is named"), testing::HasSubstr("older than"),
                                   testing::HasSubstr("not in order")));
}

}  // namespace
}  // namespace plumbline::tests
