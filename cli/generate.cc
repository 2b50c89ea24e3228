// `plumbline run PLAN --generate N`: tokens from a model that an earlier run trained.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/run.h"
#include "cli/world.h"
#include "model/base/statistics.h"
#include "real/host/clock.h"
#include "real/host/run.h"
#include "reports/generation_report.h"
#include "sim/serving/serving.h"

namespace plumbline::cli {
namespace {

using model::wrong_input;

reports::GenerationReport report_of(const RunArguments& arguments, const sim::Inputs& inputs,
                                    const real::Generation& generation) {
  reports::GenerationReport report;
  report.clock = arguments.clock.value_or("wall");
  report.date = now_in_utc();
  report.trained_steps = generation.trained_steps;
  report.temperature = arguments.generate.temperature;
  report.seed = arguments.generate.seed;
  report.prompts = generation.prompts;
  report.outputs = generation.outputs;
  report.prefill_s = generation.prefill_s;
  report.decode_s = generation.decode_s;
  if (!generation.decode_s.empty()) report.tpot_s = model::quantile(generation.decode_s, 0.5);
  report.gpus = inputs.plan.cluster.gpus;
  return report;
}

// Returns what is predicted for requests as long as those that were generated.
model::Result<model::ServingResult> predicted(const RunArguments& arguments, const reports::GenerationReport& report) {
  std::vector<std::string> overrides = arguments.plan.overrides;
  overrides.push_back(fmt::format("inference.input_tokens={}", report.prompts.front().size()));
  overrides.push_back(fmt::format("inference.output_tokens={}", report.outputs.front().size()));
  overrides.emplace_back("inference.chunked_prefill_tokens=0");
  InputsReader reader(Purpose::serving);
  return sim::predict_serving(TRY(reader.load(arguments.plan.plan, overrides)));
}

}  // namespace

model::Result<void> check_generate_arguments(const RunArguments& a) {
  const real::GenerateOptions& generate = a.generate;
  if (generate.tokens < 0) return wrong_input("--generate", "must be at least 1");
  if (generate.tokens == 0) {
    if (generate.prompt.empty() && generate.temperature == 0) return {};
    return wrong_input("--prompt, --temperature", "are of generated tokens", "give --generate N, too");
  }
  if (a.backend != "host")
    return wrong_input("--generate", "tokens are generated on the host's cores", "leave --backend out");
  if (a.options.checkpoint.empty())
    return wrong_input("--generate", "there is no model to generate with",
                       "name the folder of a trained one with --checkpoint DIR");
  if (!std::isfinite(generate.temperature) || generate.temperature < 0)
    return wrong_input("--temperature", "must be a number from 0");
  if (a.options.resume || a.options.balance_speed != 0 || !a.board.empty() || a.outputs.given("--expert-loads") ||
      a.outputs.given("--trace") || a.outputs.given("--csv"))
    return wrong_input("--generate", "nothing is trained where tokens are generated",
                       "leave out --resume, --balance, --tensorboard, --expert-loads, --csv and --trace");
  return {};
}

void add_generate_options(CLI::App& verb, RunArguments& arguments) {
  verb.option_defaults()->group("Options of generation");
  real::GenerateOptions& generate = arguments.generate;
  verb.add_option("--generate", generate.tokens,
                  "Generate N tokens for each of inference.concurrency requests with the model in --checkpoint");
  verb.add_option("--prompt", generate.prompt,
                  "Text that every request continues (default: passages of --text, or made-up text)");
  verb.add_option("--temperature", generate.temperature, "Of the tokens' probabilities; 0 takes the likeliest token")
      ->capture_default_str();
  verb.add_option("--seed", generate.seed, "Of tokens that are drawn")->capture_default_str();
}

model::Result<int> generate_on_host(const RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  const auto device = TRY(host_device(arguments, inputs, world));
  real::GenerateOptions options = arguments.generate;
  options.checkpoint = arguments.options.checkpoint;
  options.text = arguments.options.text;
  const real::RunInput input{inputs.plan, inputs.architecture, inputs.cluster};
  const auto generation =
      TRY(world.transport == nullptr ? real::host::generate_in_process(input, options, device)
                                     : real::host::generate_rank(input, options, device, *world.transport));
  if (!world.is_root) return 0;
  reports::GenerationReport report = report_of(arguments, inputs, generation);
  report.are_bytes = !options.prompt.empty() || !options.text.empty();
  if (const auto expected = predicted(arguments, report))
    report.predicted = *expected;
  else
    report.unpredicted = expected.error().message;
  TRY(arguments.outputs.write({{"--json", [&] { return reports::generation_json(report, inputs.plan); }}}));
  return arguments.outputs.to_stdout() ? 0 : printed(reports::generation_text(report));
}

}  // namespace plumbline::cli
