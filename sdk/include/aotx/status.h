/* Purpose:  results of SDK functions, and the HTTP-like statuses that the device writes into
 *           replies.
 * Owns:     nothing.
 * Thread:   any.
 * Lifetime: not applicable. */
#ifndef AOTX_STATUS_H
#define AOTX_STATUS_H

#include "base.h"

/* Result of an SDK function. Negative is failure, the hundreds digit is the category. Append only:
 * never renumbered, never reused. */
enum aotx_result {
    AOTX_OK = 0,
    AOTX_ERR_NEED_MORE = -101, /* 1xx wait: the input ends before the item; nothing was consumed */
    AOTX_ERR_LENGTH = -201,    /* 2xx bytes: a length does not match what it describes */
    AOTX_ERR_MAGIC = -202,     /* the packet does not start with AOTXAPI1 */
    AOTX_ERR_NONZERO = -203,   /* a byte that must be zero is not */
    AOTX_ERR_SYNTAX = -204,    /* text that does not follow its grammar */
    AOTX_ERR_RANGE = -205,     /* a value outside its range */
    AOTX_ERR_NOT_FOUND = -301, /* 3xx state: no such object */
    AOTX_ERR_STATE = -302,     /* the call does not fit the object's state */
    AOTX_ERR_FULL = -401,      /* 4xx room: a fixed capacity is reached */
    AOTX_ERR_RUNTIME = -501,   /* 5xx outside: a model runtime failed */
    AOTX_ERR_SYSTEM = -502,    /* the operating system refused; errno says why */
    AOTX_ERR_CLOSED = -503     /* the peer has gone */
};

/* Status word at offset 8 of a reply, and failure status at offset 96. Values are those of HTTP. */
enum aotx_device_status {
    AOTX_STATUS_NONE = 0,
    AOTX_STATUS_OK = 200,
    AOTX_STATUS_ACCEPTED = 202,
    AOTX_STATUS_BAD_REQUEST = 400, /* shape or value */
    AOTX_STATUS_FORBIDDEN = 403,   /* no grant, stale revision, or missing action */
    AOTX_STATUS_NOT_FOUND = 404,   /* not this principal's, reclaimed or never existed */
    AOTX_STATUS_CONFLICT = 409,    /* ID in use, cursor beyond the result, leased, stale revision */
    AOTX_STATUS_GONE = 410,        /* ended epoch */
    AOTX_STATUS_TOO_LARGE = 413,   /* over a capacity that waiting does not change */
    AOTX_STATUS_TOO_MANY = 429,    /* over a capacity that waiting may change */
    AOTX_STATUS_UNAVAILABLE = 503, /* the device or this function is not there now */
    AOTX_STATUS_TIMEOUT = 504      /* the request's time limit passed */
};

#endif
