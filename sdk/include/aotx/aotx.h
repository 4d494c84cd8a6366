/* Purpose:  the packet side of the SDK in one include.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable. */
#ifndef AOTX_AOTX_H
#define AOTX_AOTX_H

#include "base.h"
#include "grants.h"
#include "handle.h"
#include "information.h"
#include "mailbox.h"
#include "media.h"
#include "names.h"
#include "packet.h"
#include "packet_check.h"
#include "status.h"
#include "submit.h"
#include "text_runtime.h"
#include "watch.h"

#endif
