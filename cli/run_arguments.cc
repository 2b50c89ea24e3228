#include "cli/run_arguments.h"

#include <fmt/format.h>

#include <utility>

namespace plumbline::cli {

namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

tl::unexpected<Error> wrong(std::string key, std::string message, std::string hint = "") {
  return tl::unexpected(Error{ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)});
}

struct Given {
  const char* option;
  bool given;
};

Result<void> check_backend(const RunArguments& a) {
  if (a.backend != "host" && a.backend != "cuda")
    return wrong("--backend", fmt::format("unknown backend '{}'", a.backend), "known: host, cuda");
  const Given of_host[] = {{"--clock", a.clock.has_value()},
                           {"--cores", a.cores.has_value()},
                           {"--communication-cores", a.communication_cores.has_value()},
                           {"--accumulation", a.accumulation.has_value()}};
  const Given of_gpu[] = {{"--device", a.device.has_value()},
                          {"--sm-target", a.target_sms.has_value()},
                          {"--emulate", a.emulated.has_value()},
                          {"--lib-dir", !a.library_folders.empty()},
                          {"--kernels", !a.kernels.empty()}};
  if (a.backend == "cuda")
    for (const Given& one : of_host)
      if (one.given)
        return wrong(one.option, "is for the host's cores, not for a GPU", "leave it out, or --backend host");
  if (a.backend == "host")
    for (const Given& one : of_gpu)
      if (one.given)
        return wrong(one.option, "is for a GPU, not for the host's cores", "leave it out, or --backend cuda");
  return {};
}

Result<void> check_values(const RunArguments& a) {
  const std::string accumulation = a.accumulation.value_or("fp32");
  if (accumulation != "fp32" && accumulation != "fp16")
    return wrong("--accumulation", fmt::format("unknown format '{}'", accumulation), "known: fp32, fp16");
  if (a.options.steps < 1) return wrong("--steps", "must be at least 1");
  if (a.cores.value_or(1) < 1 || a.communication_cores.value_or(1) < 1) return wrong("--cores", "must be at least 1");
  if (a.device.value_or(0) < 0) return wrong("--device", "must be at least 0");
  if (a.target_sms.value_or(1) < 1) return wrong("--sm-target", "must be at least 1");
  if (a.emulated.value_or(0) < 0) return wrong("--emulate", "must be at least 0", "it is a pipeline rank");
  return {};
}

}  // namespace

Result<void> check_run_arguments(const RunArguments& arguments) {
  if (auto valid = check_backend(arguments); !valid) return valid;
  if (auto valid = check_values(arguments); !valid) return valid;
  const real::RunOptions& options = arguments.options;
  if (options.resume && options.checkpoint.empty())
    return wrong("--resume", "there is no folder to resume from", "name it with --checkpoint DIR");
  if (arguments.emulated && !options.checkpoint.empty())
    return wrong("--checkpoint", "a rank whose peers are stood in for learns nothing", "leave it out");
  if (arguments.emulated && options.balance_speed != 0)
    return wrong("--balance", "loads of experts are not known where other ranks are stood in for", "leave it out");
  return {};
}

}  // namespace plumbline::cli
