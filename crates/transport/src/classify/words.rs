//! What servers say, in families: patterns of at most six words, matched by `reader`.
//!
//! A family is its patterns with commas between them. A slot is a word, or several with `/` between them; `*` leaves a word's end
//! open, `~` lets up to four words stand between.
//! The words were read in the sources of sisimai, ZoneMTA, KumoMTA, Postfix and Exim, and in the providers' own lists of codes.

/// The most slots of a pattern: longer ones are quotations, which the next release of a server breaks.
pub const WORDS_MAX: usize = 6;

/// A quota with a window that ends by itself.
pub const WINDOW: &str = "\
    hourly/daily/monthly/weekly ~ limit*/quota*/rate/maximum/allowance, limit*/quota*/maximum ~ per hour/day/minute/second, \
    per second/minute/hour/day/interval, messages/emails/mails/recipients an/a/each/per hour/day, \
    sending/submission/sender/outbound/outgoing/mailing limit*/quota*, message/messages/email/mail/recipient/send limit/limits, \
    limit*/quota* ~ sending/submission/outbound, relay limit*, receive/receiving/received limit*, \
    within ~ interval/hour/minutes/day/period/hours, allotted/permitted limit*, exceeded permitted, hours limit*, too many recipients today/daily, \
    quota/limit/quotas/limits for this/the hour/day/minute/month, quota*/limit* ~ used up";

/// A quota with a window, counted in recipients.
pub const RECIPIENT_WINDOW: &str = "\
    too many recipients ~ today/daily/hour/hourly/day/minute, recipients ~ per/an/each/this hour/day/minute, daily/hourly ~ recipients, \
    recipient rate limit*, recipients limit* per";

/// Gmail's words for a flood; what they count may be an address, a link, or a domain by SPF or DKIM.
pub const FLOOD: &str = "unusual rate, unusually high rate, same message id";

/// The server's disk.
pub const DISK: &str = "disk space/full/quota, insufficient ~ disk, no space left";

/// Too fast, too much, too many: slow down.
pub const RATE: &str = "\
    rate limit*, ratelimit*, limit* ~ rate, rate ~ exceed*, exceed* ~ rate, allowed/sending/message/connection/mail rate, \
    unusual/excessive/high rate/volume, at a rate, rate that prevents, unexpected volume, volume ~ complaints/messages/mail, \
    too many message*/mail/mails/email/emails/msgs/deliveries, too quickly/fast/frequent*/often/rapidly, too much mail/email/traffic/load, \
    too many ~ connections/sessions/requests/logins/attempts/connects/threads, too many concurrent/simultaneous/failed/parallel/open, throttl*, \
    slow/slowing down, reduce ~ rate/volume/speed/connections, thread limit*, concurren*/simultaneous ~ limit*/exceeded/connections/deliveries, \
    connection/connections limit*, connection* ~ exceed*, too many invalid/unknown/bad/nonexistent/wrong/unverified recipients/users/addresses, \
    rly, tss, deferred ~ volume/complaints, maximum ~ connections/concurrency, send* ~ too much/many/fast, messages ~ too quickly/fast/short, \
    same message id, flood*, bandwidth ~ exceed*/limit*, peak ~ limit*, \
    connections ~ limited";

/// The place where it goes: with words for a rate, that domain's mail waits and no other.
pub const DESTINATION: &str = "\
    destination*, recipient/recipients/receiving/remote/target domain, for/to/per this domain, per domain/destination";

/// The rate of one recipient's mail, not ours.
pub const RECIPIENT_RATE: &str = "\
    user/recipient/mailbox/account ~ receiv* ~ quickly/rate/much/many, receives/receiving mail ~ quickly/rate, recipient ~ thread limit*, \
    receive/receiving limit*, limit* of/for the recipient, recipient ~ rate/hourly/concurren*, messages ~ to this recipient/user/mailbox";

/// A quota or limit without more words; at MAIL it is our own.
pub const OWN_LIMIT: &str = "\
    quota*, limit* ~ exceed*/reached, exceed* ~ limit*/quota*, reached ~ limit*/quota*, over ~ limit/quota, too many";

/// This connection is used up; the next one isn't.
pub const CONNECTION_USED_UP: &str = "\
    too many ~ one/this/single/same/per connection/session, messages/mails/transactions per connection/session, open a new connection, reconnect, \
    connection ~ limit ~ messages, too many errors/bad/unrecognized/unrecognised/syntax/protocol/junk/commands";

/// Counted in recipients; RFC 5321, 4.5.3.1.10 wants it read as temporary.
pub const RECIPIENT_COUNT: &str = "\
    too many recipients/rcpts/addressees, recipient count ~ exceed*, maximum ~ recipients, recipients limit*";

/// Come back later, from the same address.
pub const GREYLIST: &str = "\
    greylist*, graylist*, grey/gray list*, postgrey*, first time/visit/seen ~ sender/triplet/address, please come back, come back later";

/// For a while only.
pub const BLOCKED_FOR_NOW: &str = "\
    temporar* ~ block*/blacklist*/deferred/limited/throttled/restricted/banned/denied, block*/deferred/banned/restricted/limited temporar*, \
    temporar* deferred, for now ~ volume/complaints/reputation";

/// Says temporary with a word that doesn't mean it.
pub const BLOCKED_FOR_GOOD: &str = "\
    permanently deferred/blocked/banned/rejected/refused, retr* will not/never succeed, will not succeed, blocked until further notice";

/// A standing of our address, without a list's name.
pub const REPUTATION: &str = "\
    low/poor/bad/reputation ~ reputation, reputation ~ low/poor/bad/score, due to ~ reputation, reputation of ~ ip/address/sender/server/host, \
    ip/sender/host/domain reputation";

/// Our address on a list, or refused as such.
pub const IP_BLOCK: &str = "\
    block/black/deny list*, blocklist*, blacklist*, denylist*, spamhaus, spamcop, barracuda*, sorbs, dnsbl, dnsrbl, rbl, rbls, xbl, sbl, pbl, \
    client host ~ blocked, client host rejected, banned ~ ip/sender/address/host, sending ip/server/host ~ block*/banned/rejected/refused/listed, \
    smtp service for, not accepting connections, connections/mail/traffic ~ not accepted from, \
    ip/ips ~ blocked/banned/rejected/listed/refused/denied/prohibited/blacklisted, blocked ~ ip/ips/network/range, \
    not in ~ whitelist/allowlist/safelist, not whitelisted/allowlisted, not on ~ whitelist/allowlist, \
    host/server/network ~ banned/blocked/blacklisted, dynamic/residential ip/address/range/host, \
    connection/connections ~ rejected/refused ~ policy, block* by/using ~ list, tor exit, open proxy, no access from";

/// The name of our address.
pub const PTR: &str = "\
    reverse dns/hostname/lookup/mapping/record/ptr/name/host, ptr record*/entry/check, no ptr/rdns, rdns, cannot/could find your hostname, \
    cannot find your, forward confirmed, missing ptr, ptr";

/// The name we greet with.
pub const HELO: &str = "\
    helo/ehlo command rejected, helo/ehlo ~ invalid/rejected/refused/mismatch/malformed/match/resolve, \
    invalid/bad/bogus/forged/malformed helo/ehlo, need fully qualified hostname, helo/ehlo name/argument/hostname/domain, who are you";

/// Proof of our domain: SPF, DKIM, DMARC.
pub const SENDER_PROOF: &str = "\
    spf, dkim, dmarc, domainkeys, unauthenticated ~ email/mail/message/messages/sender, mail/email/message ~ unauthenticated, unauthenticated, \
    not ~ aligned, alignment, authentication level/checks/results, email/message/sender/domain authentication ~ required/failed/check*/fail*, \
    sender policy framework, sender id ~ fail*/check, arc ~ fail*/validation";

/// The receiver's resolver is at fault, for now.
pub const PROOF_LATER: &str = "\
    temporary dns, dns ~ temporar*/timeout/servfail/unavailable, temperror, temp error, temporar* ~ dns/lookup/spf/dkim/dmarc, \
    dns failure/failures/timeout/error, lookup ~ timed/timeout/temporarily";

/// We are no client of this server.
pub const CREDENTIALS: &str = "\
    authentication ~ required/needed/mandatory, authentication credentials, authentication ~ failed/unsuccessful/failure, \
    must ~ authenticate/log/login, authenticate first/yourself, auth/login ~ required/first/needed, requires/require authentication, \
    not authenticated, credentials ~ invalid/rejected/incorrect/expired/wrong, invalid/bad/wrong/incorrect ~ credentials/password/login, \
    password not accepted, need to authenticate, anonymous, pop before smtp, not logged in, say hello first, without authentication, \
    send helo/ehlo, helo/ehlo first, \
    smtp auth/authentication, use ~ auth";

/// Encrypt, or don't come.
pub const TLS_REQUIRED: &str = "\
    tls/ssl/encryption/starttls/encrypted ~ required/needed/mandatory/must, require*/requiring ~ tls/encryption/ssl/starttls/encrypted, \
    must ~ starttls/tls/encrypt*, without tls/encryption/starttls, not ~ encrypted, unencrypted, encryption/tls needed, starttls first";

/// Not a server for that domain, as far as we are concerned.
pub const RELAY_DENIED: &str = "\
    relay* ~ denied/prohibited/refused/disallowed/forbidden/rejected, relay* not permitted/allowed/authorized/authorised/possible/supported, \
    not permitted/allowed/authorized/authorised to relay, unable/cannot/refuse/refusing to relay, cannot/cant relay, not/dont relay, not ~ relay, \
    open relay, rcpthosts, tenant attribution, no relay*, not a/an open/mail relay, relay* restricted/attempt";

/// The login needs a person.
pub const LOGIN_STUCK: &str = "contact ~ administrator/admin/support, account ~ locked/disabled";

/// The server can't look the login up for now.
pub const LOGIN_LATER: &str = "temporary ~ failure/error/problem, temporarily unavailable/unable, backend/directory ~ unavailable";

/// This sender, or our right to it.
pub const SENDER_RIGHTS: &str = "\
    sender address rejected, owned by user, sender verif* ~ fail*, verify sender, not allowed/authorized/authorised/permitted/entitled to send, \
    send/sending as ~ denied/allowed/permission, sendas ~ denied, send as, sendasdenied, bad outbound sender, unregistered ~ domain*/sender*, \
    sending ~ denied/disabled/suspended/paused/disallowed, not ~ verified ~ address/domain/identity/sender/email, \
    sender/from/identity/email/domain ~ not verified/verified/registered, unverified ~ sender/domain/identity, spoofed/spoofing/antispoofing, \
    unauthorized/unauthorised sender/from/domain, not authorized/authorised to perform, \
    sender/from ~ not allowed/authorized/permitted/match/owned, sender domain ~ not/does/has/must/cannot, malformed sender, \
    invalid/bad/forged/unknown sender, return path, envelope sender ~ rejected/invalid/domain, domain of sender ~ not/does, \
    mail from ~ rejected/denied/invalid, \
    required for sender, domain ~ required ~ sender";

/// The account we send with.
pub const ACCOUNT: &str = "\
    out of credit*, insufficient credit*/funds/balance, credits ~ exceed*/used/exhausted, billing, payment ~ required/overdue, \
    subscription ~ expired/ended, your ~ account ~ suspended/disabled/blocked/locked, sending account/disabled/suspended/paused, \
    account ~ not ~ activated/approved/allowed, tenant ~ exceeded/blocked/threshold, trial ~ expired/ended/tenant, for test purposes";

/// A list, kept by the provider or the recipient's side, that names this recipient or us for it.
pub const SUPPRESSED: &str = "\
    suppression list/lists, suppressed ~ recipient/address/list, recipient/address ~ suppressed/suppression, customer ~ block list/blocklist, \
    customer blocklist, recipient ~ block list, recipient blocklist, banned recipient*, envelope blocked, \
    rejected/blocked/refused by ~ recipient/addressee/user/customer, recipient/recipients ~ marked ~ inactive, inactive recipient*, \
    previously/recently/hard bounced/bounce, not delivering to, marked your ~ spam/abuse, unsubscribed ~ address/recipient/list, \
    recipient/address ~ unsubscribed/complained/blocklisted/blacklisted, recipient ~ blocked ~ sender/you, user/recipient ~ blocked your, \
    recipient has ~ blocked/rejected, do not mail/email, on ~ do not ~ list, \
    bounce list, opted out, opt out list";

/// A closed mailbox that its provider wants no more mail for.
pub const MAILBOX_CLOSED: &str = "mailbox is/has disabled, mailbox has been disabled, mailbox ~ disabled";

/// A group or person that takes mail from some senders alone.
pub const RECIPIENT_POLICY: &str = "\
    allowed senders, only accepts/accept ~ internal/authenticated/organization/members/people/known, \
    not authenticated for ~ recipient/group/mailbox, restricted ~ senders/group/recipient/permissions, members only, not ~ member ~ group/list, \
    permission ~ send to ~ recipient/group/list, allowed/authorized/permitted to send ~ to ~ recipient/group/list/distribution, \
    restrictedtorecipientspermission, moderated";

/// A full mailbox.
pub const FULL: &str = "\
    over ~ quota, overquota*, quota ~ exceed*/full/reached, exceed* ~ quota/storage, mailbox/inbox/maildir/account/folder ~ full, \
    out of ~ storage/space, storage/space ~ full/exceed*/insufficient, no ~ space ~ mailbox, mailfolder is full, insufficient ~ storage/space";

/// Nobody there.
pub const UNKNOWN_USER: &str = "\
    user/recipient/mailbox/address/account/alias ~ unknown/invalid/disabled/inactive/suspended/closed/expired/deactivated, \
    unknown/invalid/nonexistent/bad/illegal/inactive ~ user/recipient/mailbox/address/alias/account, \
    no such user/recipient/mailbox/person/address/account/alias/domain/local, does not exist, doesnt exist, doesn't exist, \
    not have ~ account/mailbox, user/recipient/mailbox/address/account not found/exist/known/local/here/exists, not found, \
    unrouteable/unroutable/undeliverable address/mail, no mailbox/account here/by, mailbox not/unavailable, recipient address rejected, \
    recipient rejected, verification failed, isn't/is not a valid/known/current, not a valid ~ mailbox/user/address/recipient, not listed in, \
    does/not accept mail, address rejected, addressee unknown, user doesn't/doesnt have, \
    no longer ~ server/available/valid/here/employed/active/works, never retry, retry never, mailbox ~ disabled/inactive/suspended, \
    no mail enabled, moved ~ no forward*";

/// A permanent state under a 4yz digit.
pub const NEVER_UNDER_4YZ: &str = "\
    inbounds disabled, mail enabled subscriptions, no mail enabled, inbound ~ disabled, account ~ closed/terminated";

/// Too large.
pub const SIZE: &str = "\
    too large/big/long, size ~ exceed*/limit*/fixed/maximum, exceed* ~ size, maximum ~ size, size limit, larger than, message length exceed*, \
    exceed* storage allocation, too much data, bigger than";

/// The form of command or content.
pub const FORM: &str = "\
    hop/hops, mail loop, loop/loops ~ detected, loops back, routing loop, malformed, not ~ compliant, compliant, \
    bare newline/linefeed/line/lf/cr, header* ~ long/missing/duplicate/invalid/large/malformed, duplicate header*, invalid characters, smtputf*, \
    bitmime ~ not/required, missing ~ header/from/date/subject/message, mime ~ error/malformed/invalid, line ~ too long, attachment*, virus*, \
    malware, executable";

/// What the message says, or links to.
pub const CONTENT: &str = "\
    url/urls/link/links/uri/uribl/surbl ~ list*/blocked/black*/found/malicious, surbl, uribl, \
    spam/unsolicited/bulk/junk/phishing/suspicious ~ content/message/detected/found/score/rejected/looks, \
    detected/classified/identified/considered/marked ~ spam/junk/phishing/unsolicited, \
    content ~ policy/rejected/examination/filter/blocked/unacceptable/restriction*, \
    message/content ~ rejected/refused/blocked/denied ~ content/spam/policy, email/message/mail ~ not accepted/allowed for/due policy, \
    looks ~ spam, likely ~ spam/unsolicited/suspicious, spam message/content/score/detected, \
    url/urls/uri/link/links in the/your/this/message";

/// A parameter of MAIL that this message needs.
pub const PARAMETER: &str = "\
    unsupported ~ parameter/parameters/option/bitmime/smtputf*, parameter* ~ unsupported/unknown/unrecognized/not/recognized/recognised, bitmime, \
    smtputf*, unknown/unrecognized/unrecognised parameter*";

/// Commands out of order: the connection, not the job.
pub const SEQUENCE: &str = "\
    bad sequence, nested mail, sender already, already ~ specified/given, out of sequence/order, sequence of commands, transaction ~ progress";

/// The server's own trouble.
pub const SYSTEM: &str = "\
    system/server/local/internal/software/database/backend/disk/configuration problem*/error/errors/failure/trouble, shutting/going down, \
    shutdown, maintenance, restart*, service/server ~ unavailable/unable, resource*, service not available, timeout/timeouts, timed out, idle, \
    ports are busy, insufficient, queue file, lookup fail*, internal, overloaded";

/// Busy, and asks for patience.
pub const BUSY: &str = "server/system ~ busy, too busy, load ~ high, high load, overloaded, congest*";

/// A front end that can't vouch for what stands behind it, or a timer that ran out there.
pub const PROXY: &str = "\
    backend/upstream/proxy/downstream/cluster ~ lost/closed/reset/timeout/timed/gone/died/disconnected/aborted, \
    lost/losing ~ backend/upstream/downstream, connection ~ lost/reset/dropped/broken ~ data/content/message/dot/end, \
    connection to ~ backend/upstream/proxy/server lost, end of data ~ timeout/timed/lost, timeout/timed ~ backend/upstream/proxy, \
    no response from backend/upstream, status/result/outcome/state ~ unknown";

/// A timer's words, which count as `PROXY` under 421 alone.
pub const TIMER: &str = "timeout/timeouts, timed out, time out, idle, inactivity";

/// Soft words under a hard digit.
pub const SOFT: &str = "\
    temporar*, try ~ again, try later, retry later, retry ~ again, weather, please retry, resend ~ later, come back, few minutes/moments, \
    at this time, transient, currently ~ unavailable/unable, receivingrateperm, not ~ right now, at the moment";

/// XOAUTH2's second challenge: JSON in base64, or its meaning.
pub const TOKEN_REFUSED: &str = "token ~ expired/invalid/revoked, error challenge, eyj*, expired token, status";

/// EHLO's answer lacks what the transport requires.
pub const NO_STARTTLS: &str = "no starttls, starttls ~ missing/absent/not, requires tls, without starttls";

/// A pooled connection whose server is leaving.
pub const LEAVING: &str = "clos*, bye, goodbye, idle, timeout";

/// Come again later: under 421 with a policy's code it is about pace.
pub const LATER: &str = "again later, try later, later";

/// A server that is busy, for clients in general.
pub const SERVER_BUSY: &str = "server busy";

/// A mailbox that is unwell for now.
pub const MAILBOX_FOR_NOW: &str = "\
    temporar* ~ unavailable/disabled/suspended/failure/error/problem/rejected/unable, weather, receivingrateperm";

/// Every family, for the test that counts words.
pub const FAMILIES: &[&str] = &[
    WINDOW,
    RECIPIENT_WINDOW,
    FLOOD,
    DISK,
    RATE,
    DESTINATION,
    RECIPIENT_RATE,
    OWN_LIMIT,
    CONNECTION_USED_UP,
    RECIPIENT_COUNT,
    GREYLIST,
    BLOCKED_FOR_NOW,
    BLOCKED_FOR_GOOD,
    REPUTATION,
    IP_BLOCK,
    PTR,
    HELO,
    SENDER_PROOF,
    PROOF_LATER,
    CREDENTIALS,
    TLS_REQUIRED,
    RELAY_DENIED,
    SENDER_RIGHTS,
    ACCOUNT,
    SUPPRESSED,
    MAILBOX_CLOSED,
    RECIPIENT_POLICY,
    FULL,
    UNKNOWN_USER,
    NEVER_UNDER_4YZ,
    SIZE,
    FORM,
    CONTENT,
    PARAMETER,
    SEQUENCE,
    SYSTEM,
    BUSY,
    PROXY,
    TIMER,
    SOFT,
    TOKEN_REFUSED,
    NO_STARTTLS,
    LEAVING,
    LATER,
    LOGIN_STUCK,
    LOGIN_LATER,
    SERVER_BUSY,
    MAILBOX_FOR_NOW,
];
