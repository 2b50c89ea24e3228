#include "cli/host_cases.h"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <system_error>

#include "cli/data.h"
#include "model/architecture/config_reader.h"
#include "model/base/text_file.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "real/host/measure/case_file.h"
#include "real/host/measure/runner.h"
#include "reports/text/format.h"
#include "reports/text/measurements_text.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using model::Error;
using model::Result;
using real::Subject;
using real::Workload;
using real::host::PlanCases;

constexpr double giga = 1e9, mega = 1e6;

// An error about a plan that a case asks for, where the case does not say more.
tl::unexpected<Error> at_case(Error error, const std::string& file, const PlanCases& cases) {
  if (!error.file.empty()) return tl::unexpected(std::move(error));
  error.file = file;
  error.line = cases.line;
  error.key = "plan.plan";
  return tl::unexpected(std::move(error));
}

Result<std::string> find_plan(const std::string& file, const std::string& plan) {
  std::error_code ignored;
  const fs::path beside = fs::path(file).parent_path() / plan;
  if (fs::is_regular_file(beside, ignored)) return beside.lexically_normal().string();
  return resolve_plan(plan);
}

Result<std::vector<Workload>> workloads_of_plan(const std::string& file, const PlanCases& cases) {
  const auto path = find_plan(file, cases.plan);
  if (!path) return at_case(path.error(), file, cases);
  const auto plan = model::load_plan(*path, cases.set);
  if (!plan) return at_case(plan.error(), file, cases);
  const auto config = resolve_model(plan->file, plan->model.config);
  if (!config) return at_case(config.error(), file, cases);
  const auto architecture = model::load_architecture_of(*plan, *config);
  if (!architecture) return at_case(architecture.error(), file, cases);
  const auto layout = model::make_layout(*plan, *architecture);
  if (!layout) return at_case(layout.error(), file, cases);
  const auto program = model::compile(*plan, *architecture, *layout);
  if (!program) return at_case(program.error(), file, cases);
  return real::plan_workloads(*program, fs::path(*path).stem().string(), cases.cores);
}

Result<std::vector<Workload>> workloads_of_file(const std::string& file) {
  const auto text = model::read_text_file(file);
  if (!text) return tl::unexpected(text.error());
  const auto cases = real::host::parse_cases(*text, file);
  if (!cases) return tl::unexpected(cases.error());
  std::vector<Workload> workloads;
  for (const PlanCases& plan : cases->plans) {
    auto own = workloads_of_plan(file, plan);
    if (!own) return own;
    std::move(own->begin(), own->end(), std::back_inserter(workloads));
  }
  std::vector<Workload> others = real::host::workloads_of(*cases);
  std::move(others.begin(), others.end(), std::back_inserter(workloads));
  return workloads;
}

// Work of one round, what is run several times included.
std::string summary(const std::vector<Workload>& workloads, std::size_t cases) {
  double flops = 0, buffers = 0;
  std::size_t kernels = 0;
  for (const Workload& workload : workloads) {
    buffers += real::host::buffer_bytes(workload);
    for (const Subject& subject : real::subjects_of(workload)) {
      flops += subject.flops;
      ++kernels;
    }
  }
  return fmt::format("{} cases; a round runs {} kernels and messages with {:.4g} GFLOP; buffers take {:.1f} GB\n",
                     cases, kernels, flops / giga, buffers / giga);
}

}  // namespace

Result<std::vector<Workload>> host_workloads(const std::string& cases, int cores) {
  if (cases.empty()) return real::host::workloads_of(real::host::built_in_cases(cores));
  const auto file = resolve_host_cases(cases);
  if (!file) return tl::unexpected(file.error());
  return workloads_of_file(*file);
}

std::string cases_table(const std::vector<Subject>& subjects) {
  using reports::Align;
  constexpr std::size_t wide = 160;
  reports::Table table({{"op"},
                        {"phase"},
                        {"format"},
                        {"shape"},
                        {"cores", Align::right},
                        {"beside"},
                        {"GFLOP", Align::right},
                        {"MB", Align::right},
                        {"name"}},
                       2, wide);
  for (const Subject& subject : subjects) {
    calibrate::Subject shape;
    shape.shape = subject.shape;
    table.add({subject.op, subject.phase, subject.format, reports::shape_text(shape), fmt::format("{}", subject.cores),
               subject.copy_cores > 0 ? fmt::format("{} copying", subject.copy_cores) : "",
               subject.flops > 0 ? fmt::format("{:.4g}", subject.flops / giga) : "",
               subject.bytes > 0 ? fmt::format("{:.4g}", subject.bytes / mega) : "", subject.name});
  }
  return table.to_string();
}

std::string host_cases_table(const std::vector<Workload>& workloads) {
  const std::vector<Subject> subjects = real::distinct_subjects(workloads);
  return cases_table(subjects) + summary(workloads, subjects.size());
}

}  // namespace plumbline::cli
