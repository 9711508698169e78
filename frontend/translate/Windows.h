// What convolutions and pools have in common: their windows, and images with the channels last.
#ifndef MSAMP_FRONTEND_TRANSLATE_WINDOWS_H
#define MSAMP_FRONTEND_TRANSLATE_WINDOWS_H

#include "frontend/translate/Translator.h"

namespace msamp::frontend {

// The attributes of a node that moves windows over an image [N, C, positions..], one value a dimension of the positions.
struct Windows {
  // `size` empty: the attribute kernel_shape. Unsupported for what Msamp has no form of, Invalid for contradictions.
  Windows(NodeContext &c, const Dims &image, Dims size = {});

  Dims size, strides, dilations, low, high;
  bool beyond = false; // ceil_mode: the last window may leave the padding

  bool padded() const;
  // How many windows there are; Invalid where none fits.
  Dims counts() const;
  WindowAttr attribute() const;

private:
  void place(const std::string &autoPad);
  NodeContext &c;
  Dims positions; // of the image
};

// [N, C, positions..] as [N, positions.., C], and back.
Ref channelsLast(Emitter &e, const Ref &x);
Ref channelsFirst(Emitter &e, const Ref &x);

} // namespace msamp::frontend

#endif
