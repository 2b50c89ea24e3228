#include "calibrate/fit/detail/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace plumbline::calibrate {
namespace {

using model::OperatorKind;

// Returns a number that the environment of a run states; 0 when it does not.
double environment_number(const Measurements& file, const char* key) {
  for (const Environment& environment : file.environments) {
    const auto json = nlohmann::json::parse(environment.properties, nullptr, false);
    if (json.is_object() && json.contains(key) && json[key].is_number()) return json[key].get<double>();
  }
  return 0;
}

// Returns what was chosen of a kernel, its cache state aside.
std::string case_of(const Measurement& m) {
  std::string text = fmt::format("{} {} {} {} {}", m.op, m.phase, m.format, m.case_line, m.target_sms.value_or(0));
  for (const auto& [name, extent] : m.shape) text += fmt::format(" {}={}", name, extent);
  return text;
}

bool says(const Measurement& m, std::string_view word) { return m.case_line.find(word) != std::string::npos; }

// Returns whether a concurrent copy is like a transfer: its kernel holds SMs and moves data as fast as it can.
bool like_transfer(const Measurement& m) {
  return !says(m, "by=green") && !says(m, "copy_gbps=") && m.copy_to == "device";
}

}  // namespace

Sweep::Sweep(const std::vector<Measurements>& files) {
  for (const Measurements& file : files) {
    constexpr double microsecond = 1e-6;
    const double events = environment_number(file, "event_pair_us") * microsecond;
    for (const Measurement& m : file.values) {
      if (m.cache == "cold") cold_.insert(case_of(m));
      if (m.cache == "cold" && events < m.time.p50 / 2) events_[&m] = events;
      if (m.variant == "alone") alone_.try_emplace(m.case_line, &m);
    }
  }
}

std::string Sweep::unused(const Measurement& m) const {
  if (m.check && !m.check->ok) return "wrong results";
  if (m.op == "launch" && m.variant == "graph_node") return "gaps in a graph";
  if (m.op == "cached_attention") return "plumbline's own kernel, where engines have faster ones";
  if (m.op == "launch") return "";
  if (m.variant == "alone") return m.op == "gemm" || m.op == "attention" ? "" : with_copy;
  if (m.variant == "sustained") return "held for seconds";
  if (says(m, "rows_by=zipf")) return "uneven rows";
  if (says(m, "way=grouped")) return "all groups in one call";
  if (m.communication_sms.value_or(0) > 0) return alone(m) != nullptr && like_transfer(m) ? "" : with_copy;
  if (m.cache == "hot" && cold_.contains(case_of(m)))
    return "operands in the cache, of cases that were measured from memory too";
  return "";
}

const Measurement* Sweep::alone(const Measurement& m) const {
  if (m.case_line.empty()) return nullptr;
  const auto found = alone_.find(m.case_line);
  return found == alone_.end() ? nullptr : found->second;
}

double Sweep::seconds(const Measurement& m) const {
  const auto found = events_.find(&m);
  return typical_seconds(m) - (found == events_.end() ? 0 : found->second);
}

std::optional<OperatorKind> operator_of(const Measurement& m) {
  if (m.op == "quantise") return OperatorKind::cast;
  if (m.op == "copy") return OperatorKind::assemble_heads;  // the class of copies
  if (m.op == "permute") return OperatorKind::gather_rows;  // the class of permutations; no map is made
  if (m.op == "attention" && m.phase == "B") return OperatorKind::attention_grad;
  return named_operator(m.op);
}

std::optional<OperatorKind> named_operator(std::string_view op) {
  if (op == "gemm") return OperatorKind::matmul;
  for (int i = 0; i <= static_cast<int>(OperatorKind::copy_to_device); ++i)
    if (to_string(static_cast<OperatorKind>(i)) == op) return static_cast<OperatorKind>(i);
  return std::nullopt;
}

double launches_of(const Measurement& m) { return m.op == "gemm" ? std::max(1.0, extent_of(m, "groups")) : 1; }

}  // namespace plumbline::calibrate
