#include "cli/verb.h"

#include <unistd.h>

#include <cstdlib>

namespace plumbline::cli {

void add_plan_arguments(CLI::App& verb, PlanArguments& arguments) {
  verb.add_option("PLAN", arguments.plan, "Plan file, or the name of a shipped example")->required();
  verb.add_option("--set", arguments.overrides, "Override a key: --set parallelism.pipeline=8 (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  verb.add_flag("--print-plan", arguments.print, "Print the effective plan with every default, then stop");
}

bool colour() {
  const char* off = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (off == nullptr || *off == '\0');
}

}  // namespace plumbline::cli
