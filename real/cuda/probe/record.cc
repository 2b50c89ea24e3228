#include "real/cuda/probe/record.h"

#include <ctime>

#include "model/base/version.h"

namespace plumbline::real::cuda {

namespace {

JsonLine head(const char* kind, const RecordContext& context) {
  JsonLine line;
  line.integer("schema", model::schema).text("kind", kind);
  line.text("source", "plumbline-probe " + std::string(model::version));
  line.text("device", context.device).text("date", context.date);
  return line;
}

void describe(JsonLine& line, const Case& what) {
  line.text("op", what.operation());
  if (!what.name.empty()) line.text("name", what.name);
  if (!what.phase.empty()) line.text("phase", what.phase);
  if (!what.format.empty()) line.text("format", what.format);
  line.text("case", to_line(what));
}

JsonLine shape(const Case& what) {
  JsonLine line;
  const std::string& op = what.operation();
  if (op == "gemm") {
    line.integer("m", what.m).integer("n", what.n).integer("k", what.k).integer("groups", what.groups);
  }
  if (op == "attention") {
    line.integer("sequences", what.sequences).integer("length", what.length).integer("heads", what.heads);
    line.integer("kv_heads", what.kv_heads > 0 ? what.kv_heads : what.heads);
    line.integer("qk_dim", what.qk_dim).integer("v_dim", what.v_dim);
  }
  if (what.rows > 0) line.integer("rows", what.rows).integer("columns", what.columns);
  if (what.top_k > 0) line.integer("top_k", what.top_k);
  if (what.elements > 0) line.integer("elements", what.elements);
  if (is_collective(what)) line.integer("ranks", what.ranks);
  if (what.bytes > 0) line.integer("bytes", what.bytes);
  if (what.nodes > 0) line.integer("nodes", what.nodes);
  return line;
}

JsonLine clock(const ClockReading& reading) {
  JsonLine line;
  if (reading.sm_mhz) line.integer("sm_mhz", *reading.sm_mhz);
  if (reading.memory_mhz) line.integer("memory_mhz", *reading.memory_mhz);
  if (reading.power_w) line.number("power_w", *reading.power_w);
  if (reading.temperature_c) line.number("temperature_c", *reading.temperature_c);
  if (reading.throttle) line.text("throttle", *reading.throttle);
  return line;
}

JsonLine check(const std::optional<CheckOutcome>& outcome) {
  JsonLine line;
  if (!outcome) return line;
  line.number("relative_error", outcome->relative_error).number("tolerance", outcome->tolerance);
  line.flag("ok", outcome->ok);
  if (!outcome->note.empty()) line.text("note", outcome->note);
  return line;
}

}  // namespace

std::string measurement_line(const Measurement& measurement, const RecordContext& context) {
  const Case& what = measurement.what;
  JsonLine line = head("measurement", context);
  describe(line, what);
  line.object("shape", shape(what)).integer("sms", context.sms);
  line.integer("communication_ctas", measurement.running_ctas).integer("target_sms", what.target_sms);
  if (measurement.running_ctas > 0 && measurement.copy_gbps > 0) {
    line.text("copy_to", what.copy_to).number("copy_gbps", measurement.copy_gbps);
  }
  if (!measurement.variant.cache.empty()) line.text("cache", measurement.variant.cache);
  line.text("variant", measurement.variant.variant);
  const Quantiles time = quantiles(measurement.samples_us);
  line.integer("samples", static_cast<std::int64_t>(measurement.samples_us.size()));
  line.object(
      "time_us",
      JsonLine().number("p10", time.p10).number("p50", time.p50).number("p90", time.p90).number("min", time.min));
  if (measurement.work.flops > 0) line.number("flops", measurement.work.flops);
  if (measurement.work.bytes > 0) line.number("bytes", measurement.work.bytes);
  if (measurement.work.flops > 0) line.number("tflops", measurement.work.flops / time.p50 * 1e-6);
  if (measurement.work.bytes > 0) line.number("gbps", measurement.work.bytes / time.p50 * 1e-3);
  line.object("check", check(measurement.check)).object("clock", clock(measurement.clock));
  line.object("algorithm", measurement.algorithm);
  if (!measurement.note.empty()) line.text("note", measurement.note);
  return line.str();
}

std::string failure_line(const Case& what, const std::string& reason, const RecordContext& context) {
  JsonLine line = head("failure", context);
  describe(line, what);
  line.object("shape", shape(what)).text("reason", reason);
  return line.str();
}

std::string environment_line(const JsonLine& body, const RecordContext& context) {
  JsonLine line = head("environment", context);
  line.integer("sms", context.sms).object("environment", body);
  return line.str();
}

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  gmtime_r(&now, &fields);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &fields);
  return text;
}

}  // namespace plumbline::real::cuda
