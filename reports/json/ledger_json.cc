// Predictions that were made before their measurement, as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/json/document.h"
#include "reports/text/compare/validation_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json of_entry(const model::Quantiles& q, std::optional<double> measured) {
  Json json = joined<Json>({FIELDS(q, p10, p50, p90), {{"measured", json_of<Json>(measured)}}});
  if (!measured) return json;
  json["inside"] = q.contains(*measured);
  json["share_below"] = q.share_below(*measured);
  json["error"] = q.p50 / *measured - 1;
  return json;
}

Json of_entry(const calibrate::LedgerEntry& entry) {
  const auto& measured = entry.measured;
  Json json =
      joined<Json>({{{"file", entry.path}},
                    FIELDS(entry, date, revision, plan, profile),
                    {{"stack", text_or_null<Json>(entry.stack)},
                     {"constants_hash", entry.constants_hash},
                     {"time_s", of_entry(entry.time, measured ? std::optional(measured->time_s) : std::nullopt)},
                     {"peak_bytes", of_entry(entry.peak_bytes, measured ? measured->peak_bytes : std::nullopt)}}});
  json["measured_date"] = measured ? Json(measured->date) : Json();
  json["source"] = measured ? Json(measured->source) : Json();
  return json;
}

}  // namespace

std::string ledger_json(const std::vector<calibrate::LedgerEntry>& entries) {
  const auto inside = [](const calibrate::LedgerEntry& entry) {
    return entry.measured && entry.time.contains(entry.measured->time_s);
  };
  const auto measured = std::ranges::count_if(entries, [](const auto& entry) { return entry.measured.has_value(); });
  Json json;
  json["measured"] = measured;
  json["open"] = static_cast<std::ptrdiff_t>(entries.size()) - measured;
  json["inside"] = std::ranges::count_if(entries, inside);
  Json& list = json["entries"] = Json::array();
  for (const calibrate::LedgerEntry& entry : entries) list.push_back(of_entry(entry));
  return document("validate-ledger", json);
}

std::string ledger_csv(const std::vector<calibrate::LedgerEntry>& entries) {
  return csv_of_rows(list_of<Json>(entries, [&](const calibrate::LedgerEntry& entry) { return of_entry(entry); }));
}

}  // namespace plumbline::reports
