// Reads the component tables, calibrate/published/components/<gpu>/<table>.csv. Errors name file, line and column: a
// missing column, a number that is not finite and above 0, a shape that occurs twice, an unknown format, a GPU in the
// file's heading that is not the folder's, and another number of rows than the heading states.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "calibrate/components/rows.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

model::Result<std::vector<GemmRow>> load_gemm_rows(const std::string& path);
model::Result<std::vector<GroupedGemmRow>> load_grouped_gemm_rows(const std::string& path);
model::Result<std::vector<HeldGemmRow>> load_held_gemm_rows(const std::string& path);
model::Result<std::vector<AttentionRow>> load_attention_rows(const std::string& path);
model::Result<std::vector<TrainingAttentionRow>> load_training_attention_rows(const std::string& path);
model::Result<std::vector<MlaRow>> load_mla_rows(const std::string& path);
// Reads decode_attention.csv and decode_mla.csv.
model::Result<std::vector<CachedAttentionRow>> load_cached_attention_rows(const std::string& path);
model::Result<std::vector<ExpertRow>> load_expert_rows(const std::string& path);
model::Result<std::vector<CollectiveRow>> load_collective_rows(const std::string& path);
model::Result<std::vector<ExchangeRow>> load_exchange_rows(const std::string& path);
// Reads the low-latency rows of deepep.csv: software is the library, its version and the hardware.
model::Result<std::vector<ExchangeRow>> load_printed_exchange_rows(const std::string& path);
model::Result<std::vector<TrayExchangeRow>> load_tray_exchange_rows(const std::string& path);

// Reads the file with the loader that its name calls for and returns the number of its rows.
model::Result<std::size_t> check_component_table(const std::string& path);

}  // namespace plumbline::calibrate
