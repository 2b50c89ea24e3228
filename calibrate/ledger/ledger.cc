#include "calibrate/ledger/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "model/base/bytes.h"
#include "model/base/table_reader.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/plan/plan.h"
#include "model/profile/profile.h"
#include "sim/predict/inputs.h"

namespace plumbline::calibrate {
namespace {

using model::TableReader;
namespace fs = std::filesystem;

constexpr std::string_view extension = ".toml";

// Returns the hash in hexadecimal digits.
std::string hash_of(const std::string& text) { return fmt::format("{:016x}", model::hash_of(text)); }

// Returns the hash of names, values and uncertainties.
std::string hash_of(const model::Profile& profile) {
  std::string text;
  for (const model::Parameter& c : profile.parameters())
    text += fmt::format("{}={} {} {} {} {};", c.name, c.value, c.unit, c.relative_uncertainty.value_or(0),
                        c.low.value_or(0), c.high.value_or(0));
  return hash_of(text);
}

std::string quantiles_toml(std::string_view key, const model::Quantiles& q) {
  return fmt::format("{} = {{ p10 = {}, p50 = {}, p90 = {} }}\n", key, q.p10, q.p50, q.p90);
}

// Returns a string of several lines; one that a literal cannot hold is a quoted string.
std::string lines_toml(const std::string& text) {
  constexpr std::string_view quotes = "'''";
  return text.find(quotes) == std::string::npos ? fmt::format("{}\n{}{}", quotes, text, quotes)
                                                : model::toml_string(text);
}

#define TEXT(key) \
  std::pair { #key, &LedgerEntry::key }
constexpr std::pair<const char*, std::string LedgerEntry::*> entry_texts[] = {
    TEXT(date),  TEXT(version), TEXT(revision),       TEXT(plan),    TEXT(profile),
    TEXT(stack), TEXT(device),  TEXT(constants_hash), TEXT(fidelity)};
#undef TEXT

// Returns the keys of [predicted], but for their hash. A stack may be missing.
std::string prediction_toml(const LedgerEntry& entry) {
  std::string out;
  for (const auto& [key, text] : entry_texts)
    if (!(entry.*text).empty()) out += fmt::format("{} = {}\n", key, model::toml_string(entry.*text));
  out += fmt::format("draws = {}\nseed = {}\ntime_s = {}\n", entry.draws, entry.seed, entry.time_s);
  out += quantiles_toml("step_s", entry.time) + quantiles_toml("peak_bytes", entry.peak_bytes);
  out += fmt::format("plan_toml = {}\n", lines_toml(entry.plan_toml));
  return out;
}

// Whether the text has the form of "2026-11-23T10:30:00Z", so that the order of texts is that of times.
bool is_date(std::string_view text) {
  constexpr std::string_view form = "dddd-dd-ddTdd:dd:ddZ";
  return std::ranges::equal(text, form, [](char letter, char expected) {
    return expected == 'd' ? letter >= '0' && letter <= '9' : letter == expected;
  });
}

std::string read_date(TableReader& reader) {
  std::string date = reader.text("date");
  if (!is_date(date))
    reader.fail("date", reader.line_of("date"), fmt::format("'{}' is not a time in UTC", date),
                "write it as \"2026-11-23T10:30:00Z\"");
  return date;
}

model::Quantiles read_quantiles(TableReader& parent, std::string_view key) {
  model::Quantiles q;
  parent.require(key);
  parent.optional_table(key, [&](TableReader& reader) {
    q = {reader.positive("p10"), reader.positive("p50"), reader.positive("p90")};
    if (q.p10 > q.p50 || q.p50 > q.p90)
      reader.fail("p50", reader.line_of("p50"), "the quantiles are not in order", "p10 <= p50 <= p90");
  });
  return q;
}

void read_prediction(TableReader& reader, LedgerEntry& entry) {
  entry.date = read_date(reader);
  READ_REQUIRED(reader, entry, version, revision, plan, plan_toml, profile);
  entry.stack = reader.optional_text("stack");
  READ_REQUIRED(reader, entry, device, fidelity, constants_hash);
  entry.draws = static_cast<std::size_t>(reader.whole("draws", std::nullopt));
  entry.seed = static_cast<std::uint64_t>(reader.whole("seed", std::nullopt));
  entry.time_s = reader.positive("time_s");
  entry.time = read_quantiles(reader, "step_s");
  entry.peak_bytes = read_quantiles(reader, "peak_bytes");
  const std::string hash = reader.optional_text("prediction_hash");
  if (!hash.empty() && hash != hash_of(prediction_toml(entry)))
    reader.fail("prediction_hash", reader.line_of("prediction_hash"),
                "the prediction was changed after it was recorded",
                "take the file as it was recorded; a prediction is never changed afterwards");
}

void read_measured(TableReader& reader, LedgerEntry& entry) {
  LedgerMeasurement& measured = entry.measured.emplace();
  measured.time_s = reader.positive("time_s");
  measured.peak_bytes = reader.optional_positive("peak_bytes");
  measured.source = reader.text("source");
  measured.date = read_date(reader);
  if (measured.date < entry.date)
    reader.fail("date", reader.line_of("date"),
                fmt::format("the measurement is older than its prediction of {}", entry.date),
                "what was measured first is a comparison (plumbline compare), not a prediction");
}

void read_entry(TableReader& reader, LedgerEntry& entry) {
  reader.require("predicted");
  reader.optional_table("predicted", [&](TableReader& table) { read_prediction(table, entry); });
  reader.optional_table("measured", [&](TableReader& table) { read_measured(table, entry); });
}

}  // namespace

std::string ledger_plan(const model::Plan& plan) {
  std::string set;
  const std::string text = model::to_toml(plan);
  for (const std::string_view line : model::lines_of(text))
    if (!line.starts_with('#') && !line.empty()) set += fmt::format("{}\n", line);
  return set;
}

LedgerEntry ledger_entry(const sim::Inputs& inputs, const model::StepResult& result, const LedgerOrigin& origin) {
  LedgerEntry entry;
  static_cast<LedgerOrigin&>(entry) = origin;
  entry.plan = fs::path(inputs.plan.file).stem().string();
  entry.plan_toml = ledger_plan(inputs.plan);
  entry.profile = result.profile;
  entry.stack = result.stack;
  entry.device = result.device;
  entry.fidelity = result.fidelity;
  entry.constants_hash = hash_of(inputs.profile);
  entry.draws = result.interval->draws;
  entry.time_s = result.step.time_s;
  entry.time = result.interval->time_s;
  entry.peak_bytes = result.interval->peak_bytes.at_most(result.memory.capacity_bytes);  // as a device shows it
  return entry;
}

std::string ledger_file_name(const LedgerEntry& entry) {
  std::string name = fmt::format("{}-{}-{}", entry.date.substr(0, 10), entry.plan, entry.profile);
  std::ranges::replace_if(
      name, [](char letter) { return letter == ' ' || letter == '/' || letter == '(' || letter == ')'; }, '_');
  return name + std::string(extension);
}

std::string ledger_toml(const LedgerEntry& entry) {
  const std::string predicted = prediction_toml(entry);
  std::string out = "# Predicted before it was measured; a prediction is never changed afterwards.\n[predicted]\n";
  out += fmt::format("prediction_hash = \"{}\"\n{}", hash_of(predicted), predicted);
  if (entry.measured) out += ledger_toml(*entry.measured);
  return out;
}

std::string ledger_toml(const LedgerMeasurement& measured) {
  std::string out =
      fmt::format("\n[measured]\ndate = {}\nsource = {}\ntime_s = {}\n", model::toml_string(measured.date),
                  model::toml_string(measured.source), measured.time_s);
  if (measured.peak_bytes) out += fmt::format("peak_bytes = {}\n", *measured.peak_bytes);
  return out;
}

model::Result<LedgerEntry> read_ledger_entry(const std::string& path) {
  LedgerEntry entry;
  entry.path = path;
  TRY(model::read_table_file(path, [&entry](TableReader& reader) { read_entry(reader, entry); }));
  return entry;
}

model::Result<std::vector<LedgerEntry>> read_ledger(const std::string& folder_or_file) {
  std::error_code ignored;
  std::vector<std::string> files;
  if (fs::is_directory(folder_or_file, ignored)) {
    for (const std::string& name : model::names_in_folder(folder_or_file, extension))
      files.push_back((fs::path(folder_or_file) / (name + std::string(extension))).string());
    if (files.empty())
      return model::wrong_input_at(folder_or_file, 0, "", "the ledger has no entries",
                                   "`plumbline simulate PLAN --record FOLDER` writes one");
  } else {
    files.push_back(folder_or_file);
  }
  std::vector<LedgerEntry> entries;
  for (const std::string& file : files) entries.push_back(TRY(read_ledger_entry(file)));
  return entries;
}

}  // namespace plumbline::calibrate
