#include "reports/json/read_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "model/base/text_file.h"
#include "model/plan/plan_fields.h"
#include "model/schedule/schedule.h"
#include "reports/quantities.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

// Reads fields of one document and keeps the first error.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  // Reads the value at the dotted key; a missing or null value leaves the field as it is.
  template <class T>
  void read(const std::string& key, T& field) {
    if (const Json* value = find(key)) assign(*value, key, field);
  }

  // Reads one value for each kind of op.
  template <class T, std::size_t size>
  void read(const std::string& key, std::array<T, size>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      read(fmt::format("{}.{}", key, model::to_string(static_cast<model::OpType>(i))), values[i]);
  }

  // Returns the object at the key; nullptr when there is none.
  const Json* object(const std::string& key) const {
    const Json* value = find(key);
    return value != nullptr && value->is_object() ? value : nullptr;
  }

  template <class T>
  void assign(const Json& value, const std::string& key, std::optional<T>& field) {
    assign(value, key, field.emplace());
  }
  template <class T>
  void assign(const Json& value, const std::string& key, std::vector<T>& field) {
    if (!value.is_array()) return fail(key, "a list");
    field.clear();
    for (const Json& item : value) {
      T read{};  // the elements of std::vector<bool> are not references
      assign(item, key, read);
      field.push_back(std::move(read));
    }
  }
  void assign(const Json& value, const std::string& key, double& field) {
    get(value, value.is_number(), key, "a number", field);
  }
  void assign(const Json& value, const std::string& key, std::int64_t& field) {
    get(value, value.is_number_integer(), key, "a whole number", field);
  }
  void assign(const Json& value, const std::string& key, bool& field) {
    get(value, value.is_boolean(), key, "true or false", field);
  }
  void assign(const Json& value, const std::string& key, std::string& field) {
    get(value, value.is_string(), key, "a string", field);
  }
  void assign(const Json& value, const std::string& key, model::IntervalPart& part) {
    members(value, key, "source", part.source, "share", part.share, "measurement", part.measurement, "half_width_after",
            part.half_width_after);
  }
  void assign(const Json& value, const std::string& key, model::BubblePart& part) {
    members(value, key, "cause", part.cause, "seconds", part.seconds, "step_s", part.step_s);
  }
  void assign(const Json& value, const std::string& key, model::RolloutPart& part) {
    members(value, key, "name", part.name, "pool", part.pool, "seconds", part.seconds);
  }
  void assign(const Json& value, const std::string& key, model::Quantiles& field) {
    members(value, key, "p10", field.p10, "p50", field.p50, "p90", field.p90);
  }
  void assign(const Json& value, const std::string& key, model::RolloutMemory& memory) {
    members(value, key, "training_bytes", memory.training_bytes, "generation_bytes", memory.generation_bytes,
            "capacity_bytes", memory.capacity_bytes, "host_bytes", memory.host_bytes, "host_capacity_bytes",
            memory.host_capacity_bytes, "fits", memory.fits);
  }
  // That of a rollout has no more.
  void assign(const Json& value, const std::string& key, model::RunCost& run) {
    members(value, key, "steps", run.steps, "days", run.days, "gpu_hours", run.gpu_hours, "cost_usd", run.cost_usd);
  }
  void assign(const Json& value, const std::string& key, model::Precision& field) {
    const auto precision =
        value.is_string() ? model::parse_precision(value.get<std::string>()) : model::wrong_input("", "");
    if (!precision) return fail(key, "a number format");
    field = *precision;
  }
  void assign(const Json& value, const std::string& key, model::TierShares& field) {
    if (!value.is_object()) return fail(key, "an object");
    for (const auto& [tier, share] : value.items()) assign(share, key, field[tier]);
  }
  void assign(const Json& value, const std::string& key, model::StageLayers& field) {
    field = {};
    if (value != "balanced" && value != "even") assign(value, key, field.counts);
    field.even = value != "balanced" && field.counts.empty();
  }
  void assign(const Json& value, const std::string& key, model::AcceptanceShares& field) {
    if (value.is_number())
      assign(value, key, field.shares.emplace_back());
    else
      assign(value, key, field.shares);
  }
  void assign(const Json& value, const std::string& key, model::ConfigValue& field) {
    if (value.is_string())
      field = value.get<std::string>();
    else if (value.is_boolean())
      field = value.get<bool>();
    else if (value.is_number_integer())
      field = value.get<std::int64_t>();
    else if (value.is_number())
      field = value.get<double>();
    else
      fail(key, "a number, a string, true or false");
  }

  const std::optional<model::Error>& error() const { return error_; }

 private:
  const Json* find(std::string_view key) const {
    const Json* value = &json_;
    while (true) {
      const std::size_t dot = key.find('.');
      const auto next = value->is_object() ? value->find(std::string(key.substr(0, dot))) : value->end();
      if (next == value->end() || next->is_null()) return nullptr;
      value = &*next;
      if (dot == std::string_view::npos) return value;
      key.remove_prefix(dot + 1);
    }
  }
  template <class Field, class... Others>
  void read_in_turn(const char* name, Field& field, Others&... others) {
    read(name, field);
    if constexpr (sizeof...(others) > 0) read_in_turn(others...);
  }
  // Reads the members of an object: a name and its field in turn.
  template <class... Members>
  void members(const Json& value, const std::string& key, Members&... names_and_fields) {
    if (!value.is_object()) return fail(key, "an object");
    Reader reader(value);
    reader.read_in_turn(names_and_fields...);
    if (error_ || !reader.error_) return;
    error_ = reader.error_;
    error_->key = fmt::format("{}.{}", key, error_->key);
  }
  template <class T>
  void get(const Json& value, bool fits, const std::string& key, std::string_view expected, T& field) {
    if (!fits) return fail(key, expected);
    field = value.get<T>();
  }
  void fail(const std::string& key, std::string_view expected) {
    if (!error_)
      error_ = model::Error{model::ErrorKind::input,         fmt::format("expected {}", expected), "", 0, key,
                            "as `simulate --json` writes it"};
  }

  const Json& json_;
  std::optional<model::Error> error_;
};

// Returns the class of work whose key this is, or, as files of earlier versions have it, whose name.
std::string class_of_key(const std::string& key) {
  const auto& names = model::breakdown_names();
  const auto found = std::ranges::find(names, key_of_name(key), key_of_name);
  return found == names.end() ? key : std::string(*found);
}

void read_step(Reader& reader, model::StepTimes& step) {
  visit_step(step, [&](const std::string& key, auto& field, auto...) { reader.read("step." + key, field); });
  if (const Json* breakdown = reader.object("step.breakdown_s")) {
    for (const auto& [key, value] : breakdown->items())
      if (!value.is_null())
        reader.assign(value, "step.breakdown_s." + key,
                      step.breakdown.emplace_back(model::StepTimes::ClassTime{class_of_key(key), 0}).seconds);
  }
}

void read_run(Reader& reader, std::optional<model::RunCost>& run) {
  if (reader.object("run") == nullptr) return;
  visit_run(
      run.emplace(), [&](const std::string& key, auto& field, auto...) { reader.read("run." + key, field); }, [] {});
}

void read_cluster(Reader& reader, std::optional<model::ClusterSpread>& cluster) {
  if (reader.object("cluster") == nullptr) return;
  visit_cluster(cluster.emplace(),
                [&](const std::string& key, auto& field, auto...) { reader.read("cluster." + key, field); });
  reader.read("cluster.bubble", cluster->bubble);
}

void read_interval(Reader& reader, std::optional<model::PredictionInterval>& known) {
  std::optional<double> time_s;
  reader.read("interval.time_s.p50", time_s);
  if (!time_s) return;
  model::PredictionInterval& interval = known.emplace();
  visit_quantiles(interval, [&](const std::string& key, auto& field, auto...) {
    std::optional<double> p10, p50, p90;
    reader.read(fmt::format("interval.{}.p10", key), p10);
    reader.read(fmt::format("interval.{}.p50", key), p50);
    reader.read(fmt::format("interval.{}.p90", key), p90);
    if (p10 && p50 && p90) field = model::Quantiles{*p10, *p50, *p90};
  });
  reader.read("interval.fits_probability", interval.fits_probability);
  reader.read("interval.left_factor", interval.left_factor);
  reader.read("interval.left_rows", interval.left_rows);
  std::int64_t draws = 0;
  reader.read("interval.draws", draws);
  interval.draws = static_cast<std::size_t>(std::max<std::int64_t>(draws, 0));
  reader.read("interval.parts", interval.parts);
}

void read_rollout(Reader& reader, std::optional<model::RolloutResult>& known) {
  if (reader.object("rollout") == nullptr) return;
  model::RolloutResult& rollout = known.emplace();
  visit_rollout(
      rollout, [&](const std::string& key, auto& field, auto...) { reader.read("rollout." + key, field); },
      [&] { reader.read("rollout.parts", rollout.parts); });
  reader.read("rollout.memory", rollout.memory);
  reader.read("rollout.step_usd", rollout.step_usd);
  reader.read("rollout.run", rollout.run);
  reader.read("rollout.interval_s", rollout.interval_s);
}

void read_plan(Reader& reader, model::Plan& plan) {
  if (const Json* keys = reader.object("plan.model")) {
    for (const auto& [key, value] : keys->items())
      if (key != "config") plan.model.overrides.try_emplace(key);
  }
  plan.inference.given = reader.object("plan.inference") != nullptr;
  plan.rollout.given = reader.object("plan.rollout") != nullptr;
  model::visit_fields(plan,
                      [&](std::string_view key, auto& field) { reader.read(fmt::format("plan.{}", key), field); });
}

// Reads the rows that json.cc writes; returns false when one of them is not a span.
bool read_timeline(Reader& reader, model::Timeline& timeline) {
  constexpr std::size_t columns = 8;
  std::vector<std::vector<std::int64_t>> rows;
  reader.read("timeline.names", timeline.names);
  std::int64_t ranks = 0;
  reader.read("timeline.ranks", ranks);
  timeline.ranks = static_cast<std::int32_t>(ranks);
  reader.read("timeline.end_ps", timeline.end_ps);
  reader.read("timeline.spans", rows);
  for (const std::vector<std::int64_t>& row : rows) {
    const auto last = static_cast<std::int64_t>(model::Stream::optimizer);
    if (row.size() != columns || row[0] < 0 || row[0] >= static_cast<std::int64_t>(timeline.names.size()) ||
        row[2] < 0 || row[2] > last)
      return false;
    timeline.spans.push_back({.name = static_cast<std::uint32_t>(row[0]),
                              .rank = static_cast<std::int32_t>(row[1]),
                              .stream = static_cast<model::Stream>(row[2]),
                              .layer = static_cast<std::int32_t>(row[3]),
                              .micro_batch = static_cast<std::int32_t>(row[4]),
                              .start_ps = row[5],
                              .duration_ps = row[6],
                              .depth = static_cast<std::uint8_t>(row[7])});
  }
  return true;
}

}  // namespace

model::Result<StoredResult> read_result(std::string_view text, const std::string& path) {
  TRY(model::check_nesting(text, path));
  const Json json = Json::parse(text, nullptr, false);
  const auto refuse = [&path](std::string message, std::string key) {
    return model::wrong_input_at(path, 0, std::move(key), std::move(message),
                                 "a result is what `plumbline simulate PLAN --json FILE` writes");
  };
  if (json.is_discarded()) return refuse("not JSON", "");
  if (!json.is_object() || !json.contains("step") || !json["step"].is_object() || !json["step"].contains("time_s"))
    return refuse("no result: it has no step with its time", "step.time_s");
  Reader reader(json);
  StoredResult stored;
  model::StepResult& result = stored.result;
  read_step(reader, result.step);
  read_run(reader, result.run);
  read_interval(reader, result.interval);
  read_cluster(reader, result.cluster);
  read_rollout(reader, result.rollout);
  reader.read("bound.time_s", result.bound_s);
  reader.read("memory.peak_bytes", result.memory.peak_bytes);
  reader.read("memory.capacity_bytes", result.memory.capacity_bytes);
  reader.read("memory.fits", result.memory.fits);
  reader.read("memory.fits_probability", result.memory.fits_probability);
  reader.read("memory.measured", result.memory.measured);
  reader.read("basis.fidelity", result.fidelity);
  reader.read("basis.profile", result.profile);
  reader.read("basis.stack", result.stack);
  reader.read("basis.device", result.device);
  read_plan(reader, stored.plan);
  reader.read("training.clock", stored.clock);
  reader.read("training.date", stored.date);
  reader.read("training.measured_seconds", stored.measured_seconds);
  if (!read_timeline(reader, stored.timeline))
    return refuse("the timeline has a row that is no span", "timeline.spans");
  if (reader.error()) {
    model::Error error = *reader.error();
    error.file = path;
    return tl::unexpected(std::move(error));
  }
  if (!std::isfinite(result.step.time_s) || result.step.time_s <= 0)
    return refuse(fmt::format("a step of {} s", result.step.time_s), "step.time_s");
  return stored;
}

bool is_result(const std::string& path) {
  if (path.ends_with(".json")) return true;
  if (path.ends_with(".toml") || !model::is_file(path)) return false;
  const auto text = model::read_text_file(path);
  const std::size_t first = text ? text->find_first_not_of(" \t\r\n") : std::string::npos;
  return first != std::string::npos && (*text)[first] == '{';
}

}  // namespace plumbline::reports
