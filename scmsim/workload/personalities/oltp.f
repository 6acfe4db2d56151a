# Database: many readers of small records, ten writers in bursts of 100, one writer of the log.
set $dir=/filebench
set $nshadows=200
set $ndbwriters=10
set $nfiles=10
set $filesize=10m
set $logsize=10m
set $iosize=2k
set $logio=256k
set $memory=1m
define fileset name=data,path=$dir,size=$filesize,entries=$nfiles,dirwidth=1024,prealloc=100,reuse
define fileset name=log,path=$dir,size=$logsize,entries=1,dirwidth=1024,prealloc=100,reuse
define process name=logger,instances=1 {
  thread name=logger,memsize=$memory,instances=1 {
    flowop aiowrite name=log-write,filesetname=log,iosize=$logio,random,dsync
    flowop aiowait name=log-wait
    flowop semblock name=log-block,value=3200,highwater=1000
  }
}
define process name=writer,instances=$ndbwriters {
  thread name=writer,memsize=$memory,instances=1 {
    flowop aiowrite name=data-write,filesetname=data,iosize=$iosize,random,iters=100,opennext,dsync
    flowop hog name=writer-hog,value=10000
    flowop semblock name=writer-block,value=1000,highwater=2000
    flowop aiowait name=writer-wait
  }
}
define process name=shadow,instances=$nshadows {
  thread name=shadow,memsize=$memory,instances=1 {
    flowop read name=data-read,filesetname=data,iosize=$iosize,random,opennext
    flowop hog name=reader-hog,value=200000
    flowop sempost name=post-log,value=1,target=log-block,blocking
    flowop sempost name=post-writer,value=1,target=writer-block,blocking
    flowop eventlimit name=rate
  }
}
