#include "real/cuda/probe/options.h"

#include <algorithm>
#include <cstdlib>

#include "real/cuda/probe/budget.h"
#include "real/cuda/probe/sweep.h"
#include "real/cuda/probe/work.h"

namespace plumbline::real::cuda {

namespace {

std::optional<int> small_number(const std::string& text, int least, int most) {
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || number < least || number > most) return std::nullopt;
  return static_cast<int>(number);
}

// Sets the option that takes a value; an error when it is unknown or the value is wrong.
std::string set(ProbeOptions& options, const std::string& name, const std::string& value) {
  const auto wrong = [&] { return name + " does not take '" + value + "'"; };
  if (name == "--out") {
    options.out = value;
  } else if (name == "--cases") {
    options.cases_file = value;
  } else if (name == "--only") {
    options.only = value;
  } else if (name == "--rendezvous") {
    options.rendezvous = value;
  } else if (name == "--lib-dir") {
    options.given_folders.push_back(value);
  } else if (name == "--device-peak") {
    options.device_peak = value;
    if (find_peak(value) == nullptr) return wrong();
  } else if (name == "--budget") {
    options.budget_seconds = parse_duration(value);
    if (!options.budget_seconds) return wrong() + ": use 90s, 8m or 1h";
  } else if (name == "--device" || name == "--samples") {
    const auto number = name == "--device" ? small_number(value, 0, 1023) : small_number(value, 20, 10000);
    if (!number) return wrong();
    if (name == "--device") {
      options.device = *number;
    } else {
      options.samples = *number;
    }
  } else {
    return "unknown option " + name;
  }
  return "";
}

}  // namespace

ParsedOptions parse_options(const std::vector<std::string>& arguments) {
  ParsedOptions parsed;
  ProbeOptions& options = parsed.value;
  const std::vector<std::pair<std::string, bool*>> flags = {
      {"--dry-run", &options.dry_run}, {"--list-libraries", &options.list_libraries},
      {"--retry", &options.retry},     {"--strict", &options.strict},
      {"--help", &options.help},       {"-h", &options.help}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto flag = std::find_if(flags.begin(), flags.end(), [&](const auto& f) { return f.first == argument; });
    if (flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (equals == std::string::npos && i + 1 == arguments.size()) {
      parsed.error =
          argument.rfind("--", 0) == 0 ? argument + " needs a value, or is unknown" : "unexpected argument " + argument;
      return parsed;
    }
    const std::string value = equals == std::string::npos ? arguments[++i] : argument.substr(equals + 1);
    parsed.error = set(options, name, value);
    if (!parsed.error.empty()) return parsed;
  }
  if (!options.dry_run && !options.list_libraries && !options.help && options.out.empty()) {
    parsed.error = "--out FILE is needed (or --dry-run)";
  }
  return parsed;
}

std::string usage() {
  return "usage: plumbline-probe --out FILE [--budget 8m] [--cases FILE] [--only OP]\n"
         "       plumbline-probe --dry-run [--cases FILE] [--only OP] [--device-peak NAME]\n"
         "       plumbline-probe --list-libraries [--lib-dir DIR]\n"
         "\n"
         "Measures the kernels of training on one GPU and appends a JSON record per variant to FILE; what FILE\n"
         "already holds for this device is not measured again.\n"
         "\n"
         "  --out FILE          the records, JSON Lines\n"
         "  --budget TIME       stop in time: 90s, 8m, 1h; the most valuable cases come first\n"
         "  --cases FILE        the cases of this file, in its order, instead of the built-in sweep\n"
         "  --only OP           only cases of this operation (gemm, rmsnorm, ..., copy, all_reduce, partition)\n"
         "  --samples N         samples per variant, at least 20 (30)\n"
         "  --device N          the N-th GPU that CUDA lists (LOCAL_RANK, else 0)\n"
         "  --rendezvous FILE   where several ranks (RANK, WORLD_SIZE) find each other: a path that does not exist "
         "yet\n"
         "  --lib-dir DIR       look for libraries here first; may be repeated, as may PLUMBLINE_LIBDIR=A:B\n"
         "  --device-peak NAME  datasheet rates for floor times: h100, h200, h800, h20, a100, a800\n"
         "  --retry             measure again what failed before\n"
         "  --strict            exit 1 when a case failed\n"
         "  --dry-run           list the cases with FLOPs, bytes and floor times; needs no GPU\n"
         "  --list-libraries    say which libraries were found, and where\n"
         "\n"
         "exit codes: 0 fine, 1 wrong input, 77 no GPU to measure (the reason is on stderr)\n";
}

ParsedCases chosen_cases(const ProbeOptions& options, int sms, int ranks) {
  ParsedCases cases =
      options.cases_file.empty() ? ParsedCases{built_in_sweep(sms, ranks), ""} : load_cases(options.cases_file);
  const auto unwanted = [&](const Case& value) {
    return (!options.only.empty() && value.op != options.only) || (ranks > 1 && !is_collective(value));
  };
  auto& values = cases.values;
  values.erase(std::remove_if(values.begin(), values.end(), unwanted), values.end());
  if (cases.error.empty() && cases.values.empty())
    cases.error = "no cases" + (options.only.empty() ? "" : " of operation " + options.only);
  return cases;
}

}  // namespace plumbline::real::cuda
