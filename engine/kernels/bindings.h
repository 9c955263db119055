// The parts of the Python module that are bound in files of their own.
#pragma once

#include <nanobind/nanobind.h>

namespace bankml {

void bind_files(nanobind::module_ & m);
void bind_grammars(nanobind::module_ & m);
void bind_tokenizers(nanobind::module_ & m);

}  // namespace bankml
