#include "calibrate/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using tests::expect_error;
using tests::TemporaryDirectory;

LedgerEntry example() {
  LedgerEntry entry;
  entry.date = "2026-11-23T10:30:00Z";
  entry.version = "0.1.0";
  entry.revision = "9a65f9bc1234";
  entry.plan = "host-train";
  entry.plan_toml = "[model]\nconfig = \"models/tiny-moe.json\"\n";
  entry.profile = "host (changed)";
  entry.device = "host-core";
  entry.fidelity = "step";
  entry.constants_hash = "00000000000000ff";
  entry.draws = 128;
  entry.seed = 7;
  entry.time_s = 0.1 + 0.2;
  entry.time = {0.25, 0.3125, 0.4};
  entry.peak_bytes = {1e8, 1.1e8, 1.25e8};
  return entry;
}

// Returns the error of reading the example after `from` in its text became `to`.
model::Error error_of(const TemporaryDirectory& folder, const std::string& text, const std::string& from,
                      const std::string& to) {
  std::string changed = text;
  changed.replace(changed.find(from), from.size(), to);
  return read_ledger_entry(folder.write("bad.toml", changed).string()).error();
}

TEST(Ledger, ReadsBackWhatItWrites) {
  const TemporaryDirectory folder;
  const LedgerEntry written = example();
  const auto read = read_ledger_entry(folder.write("a.toml", ledger_toml(written)).string());
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->plan_toml, written.plan_toml);
  EXPECT_EQ(read->time_s, written.time_s);
  EXPECT_EQ(read->time, written.time);
  EXPECT_EQ(read->peak_bytes, written.peak_bytes);
  EXPECT_EQ(read->seed, 7u);
  EXPECT_EQ(read->stack, "");
  EXPECT_FALSE(read->measured);
  EXPECT_EQ(ledger_toml(*read), ledger_toml(written));
  EXPECT_EQ(ledger_file_name(*read), "2026-11-23-host-train-host__changed_.toml");
}

TEST(Ledger, TakesALaterMeasurementAtTheEndOfTheFile) {
  const TemporaryDirectory folder;
  const LedgerMeasurement measured = {.time_s = 0.5, .date = "2026-11-23T10:30:01Z", .source = "a \"quiet\" node"};
  const auto read = read_ledger_entry(folder.write("a.toml", ledger_toml(example()) + ledger_toml(measured)).string());
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->measured->time_s, 0.5);
  EXPECT_FALSE(read->measured->peak_bytes);
  EXPECT_EQ(read->measured->source, "a \"quiet\" node");
}

TEST(Ledger, RefusesAMeasurementOlderThanItsPrediction) {
  const TemporaryDirectory folder;
  const LedgerMeasurement measured = {.time_s = 0.5, .date = "2026-11-23T10:29:59Z", .source = "x"};
  const auto read = read_ledger_entry(folder.write("a.toml", ledger_toml(example()) + ledger_toml(measured)).string());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().key, "measured.date");
  EXPECT_THAT(read.error().message, testing::HasSubstr("older than its prediction of 2026-11-23T10:30:00Z"));
}

TEST(Ledger, RefusesEntriesThatLackWhatMakesThemPredictions) {
  const TemporaryDirectory folder;
  const std::string text = ledger_toml(example());
  EXPECT_EQ(error_of(folder, text, "p10 = 0.25", "p10 = 0.32").key, "predicted.step_s.p50");
  EXPECT_EQ(error_of(folder, text, "p90 = 125000000", "p90 = 105000000").key, "predicted.peak_bytes.p50");
  EXPECT_EQ(error_of(folder, text, "revision = \"9a65f9bc1234\"\n", "").key, "predicted.revision");
  EXPECT_EQ(error_of(folder, text, "T10:30:00Z", " 10:30").key, "predicted.date");
  EXPECT_EQ(error_of(folder, text, "[predicted]", "[prediction]").key, "predicted");
}

TEST(Ledger, RefusesAPredictionThatWasChanged) {
  const TemporaryDirectory folder;
  const std::string text = ledger_toml(example());
  EXPECT_EQ(error_of(folder, text, "p50 = 0.3125", "p50 = 0.3126").key, "predicted.prediction_hash");
  EXPECT_EQ(error_of(folder, text, "seed = 7", "seed = 8").key, "predicted.prediction_hash");
  EXPECT_EQ(error_of(folder, text, "tiny-moe", "tiny-mow").key, "predicted.prediction_hash");
  std::string without = text;  // as entries of earlier versions
  const std::size_t begin = without.find("prediction_hash"), end = without.find('\n', begin) + 1;
  without.erase(begin, end - begin);
  EXPECT_TRUE(read_ledger_entry(folder.write("old.toml", without).string()));
}

TEST(Ledger, OfAFolderIsItsFilesInOrder) {
  const TemporaryDirectory folder;
  const auto none = read_ledger(folder.path().string());
  ASSERT_FALSE(none);
  expect_error(none.error(), model::ErrorKind::input, folder.path().string(), 0, "", "no entries");
  folder.write("b.toml", ledger_toml(example()));
  folder.write("a.toml", ledger_toml(example()));
  folder.write("README.md", "no entry");
  const auto read = read_ledger(folder.path().string());
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->size(), 2u);
  EXPECT_TRUE((*read)[0].path.ends_with("a.toml"));
}

}  // namespace
}  // namespace plumbline::calibrate
