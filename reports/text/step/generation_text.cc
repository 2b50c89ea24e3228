#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "reports/generation_report.h"
#include "reports/text/format.h"

namespace plumbline::reports {
namespace {

// Shows bytes that are no printable characters of ASCII by their code, so that terminals take no commands from a model.
std::string shown(const std::vector<std::int32_t>& tokens, bool are_bytes) {
  if (!are_bytes) return fmt::format("{}", fmt::join(tokens, " "));
  std::string text;
  for (const std::int32_t token : tokens) {
    const bool printable = (token >= ' ' && token <= '~') || token == '\n';
    text += printable ? std::string(1, static_cast<char>(token)) : fmt::format("\\x{:02x}", token);
  }
  return text;
}

// Returns "  TPOT  12.00 ms   predicted 11.00 ms (-8.3 %)".
std::string line_of(const std::string& name, double measured, const model::ServingResult* predicted, double expected) {
  std::string line = fmt::format("  {:<18}{:>12}", name, duration(measured));
  if (predicted != nullptr)
    line += fmt::format("  predicted {} ({})", duration(expected), signed_percent(expected / measured - 1));
  return line + '\n';
}

}  // namespace

std::string generation_text(const GenerationReport& report) {
  std::string text;
  for (std::size_t i = 0; i < report.outputs.size(); ++i)
    text += fmt::format("request {}: {} | {}\n", i, shown(report.prompts[i], report.are_bytes),
                        shown(report.outputs[i], report.are_bytes));
  text += fmt::format("\n{} requests, {} prompt tokens and {} generated ones each, model of {} steps, clock {}\n",
                      report.outputs.size(), report.prompts.front().size(), report.outputs.front().size(),
                      report.trained_steps, report.clock);
  const model::ServingResult* predicted = report.predicted ? &*report.predicted : nullptr;
  const double of_prefill = predicted == nullptr
                                ? 0
                                : report.requests() * report.prompt_tokens() / static_cast<double>(report.gpus) /
                                      predicted->prefill_tokens_per_s_per_gpu;
  text += line_of("prefill", report.prefill_s, predicted, of_prefill);
  if (report.tpot_s > 0)
    text += line_of("TPOT", report.tpot_s, predicted, predicted == nullptr ? 0 : predicted->decode_step_s);
  if (!report.unpredicted.empty()) text += fmt::format("  not predicted: {}\n", report.unpredicted);
  return text;
}

}  // namespace plumbline::reports
