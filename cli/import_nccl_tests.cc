#include <fmt/format.h>

#include <cstdio>

#include "calibrate/import/nccl_tests.h"
#include "cli/import.h"
#include "cli/output.h"
#include "model/base/text_file.h"

namespace plumbline::cli {

model::Result<void> import_nccl_tests(const ImportArguments& arguments) {
  if (arguments.device || !arguments.classes.empty())
    return tl::unexpected(model::Error{model::ErrorKind::input, "only 'import kineto' takes it", "", 0,
                                       arguments.device ? "--device" : "--classes", ""});
  const auto text = model::read_text_file(arguments.file);
  if (!text) return tl::unexpected(text.error());
  const auto measurements = calibrate::parse_nccl_tests(*text, arguments.file);
  if (!measurements) return tl::unexpected(measurements.error());
  const bool lines = arguments.out.ends_with(".jsonl");
  auto written =
      write_output(arguments.out, lines ? calibrate::to_jsonl(*measurements) : calibrate::to_csv(*measurements));
  if (!written) return written;
  const calibrate::Measurement& first = measurements->values.front();
  fmt::print(stderr, "{} times of {} on {} x {}\n", measurements->values.size(), first.op, first.shape[1].second,
             first.device);
  return {};
}

}  // namespace plumbline::cli
