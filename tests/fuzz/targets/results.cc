// What plumbline wrote itself or ships as data: results, cases, the ledger, rates of failures, checkpoints.
#include <nlohmann/json.hpp>
#include <string>

#include "calibrate/ledger/ledger.h"
#include "calibrate/reliability/reliability.h"
#include "calibrate/validate/validation_case.h"
#include "real/executor/training/checkpoint.h"
#include "real/executor/training/detail/checkpoint_file.h"
#include "real/host/measure/case_file.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "reports/json/read_json.h"
#include "tests/fuzz/targets.h"

namespace plumbline::fuzz {

void read_stored_result(std::string_view input) { require_words(reports::read_result(input, "result.json")); }

void read_validation_case(std::string_view input) {
  const auto find = [](const std::string&, const std::string& name) -> model::Result<std::string> {
    return in_repository("calibrate/published/" + name.substr(name.rfind('/') + 1));
  };
  require_words(calibrate::load_case(input_file("case.toml", input), {find, in_repository("calibrate/kernels.toml")}));
}

void read_host_cases(std::string_view input) { require_words(real::host::parse_cases(input, "cases.toml")); }

// A case that is read is written as a line, which reads as the same case.
void read_kernel_cases(std::string_view input) {
  for (const char* name : {"kernels.cases", "kernels.toml"}) {
    const auto cases = real::read_case_file(input_file(name, input));
    require_words(cases);
    if (!cases) continue;
    for (const real::KernelCase& one : *cases) {
      const auto again = real::parse_kernel_case(to_line(one));
      require_read(again);
      require(to_line(*again) == to_line(one), "a case changes when it is written and read: " + to_line(one));
    }
  }
}

void read_ledger(std::string_view input) {
  const auto entry = calibrate::read_ledger_entry(input_file("entry.toml", input));
  require_words(entry);
  if (entry) require_read(calibrate::read_ledger_entry(input_file("again.toml", ledger_toml(*entry))));
}

void read_reliability(std::string_view input) {
  require_words(calibrate::load_reliability(input_file("reliability.toml", input)));
}

// Opens the file of a rank and reads each piece that its header names. An input without the magic is the body of the
// header with the data behind it, since checksums would keep mutations out: it gets the preamble of such a body.
void read_checkpoint_file(std::string_view input) {
  constexpr std::size_t body = 50;  // one piece, with names of one letter
  std::string bytes(input);
  if (!input.starts_with(real::checkpoint_magic)) {
    const std::string_view header = input.substr(0, body);
    bytes.insert(0, real::encode_preamble({.crc = real::crc32_of(header), .body_bytes = header.size()}));
  }
  const auto decoded = real::decode_body(input);
  if (decoded) require(encode_body(*decoded) == input, "a header changes when it is read and written");
  auto file = real::CheckpointFile::open(input_file("rank-00000.bin", bytes));
  require_words(file);
  if (!file) return;
  for (const real::CheckpointPiece& piece : file->header().pieces) require_words(file->read(piece));
}

// The input is the content of a manifest, which gets its checksum, or else the whole file.
void read_checkpoint_manifest(std::string_view input) {
  const auto content = nlohmann::json::parse(input, nullptr, false);
  nlohmann::json file = {{"plumbline_checkpoint", real::checkpoint_version}, {"content", content}};
  const bool is_content = content.is_object() && content.contains("fingerprint");
  if (is_content)
    file["crc32"] = real::crc32_of(content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  input_file("checkpoint/step-00000001/manifest.json", is_content ? file.dump() : input);
  const std::string folder = input_file("checkpoint/note", "");
  require_words(real::newest_checkpoint(folder.substr(0, folder.rfind('/'))));
}

}  // namespace plumbline::fuzz
